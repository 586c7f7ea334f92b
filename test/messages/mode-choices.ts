/** Why `--mode=auto` chose a mode, by what stands on the node. */
export const MODE_REASONS = {
  nothing: 'no rules of a proxy stand on this node, and its kernel can do nftables mode',
  chains: 'rules of iptables mode (the chain KUBE-SERVICES) stand on this node',
  table: 'the nftables table slicewire stands on this node',
  kubeProxyTable: 'the nftables table kube-proxy stands on this node',
  device: 'the device kube-ipvs0 of IPVS mode stands on this node',
} as const;
