/* Prints what the C headers say of the layouts and constants that native/ uses, as JSON; a test compares them with ours. */
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>

static const char *separator = "{";

static void say(const char *name, long value) {
  printf("%s\n  \"%s\": %ld", separator, name, value);
  separator = ",";
}

#define CONSTANT(name) say(#name, (long)(name))
#define SIZE(type) say("sizeof " #type, (long)sizeof(type))
#define OFFSET(type, field) say(#type "." #field, (long)offsetof(type, field))

int main(void) {
  CONSTANT(AF_UNIX);
  CONSTANT(AF_INET);
  CONSTANT(AF_INET6);
  CONSTANT(AF_NETLINK);
  CONSTANT(SOCK_DGRAM);
  CONSTANT(SOCK_RAW);
  CONSTANT(SOCK_CLOEXEC);
  CONSTANT(MSG_TRUNC);
  CONSTANT(MSG_DONTWAIT);
  CONSTANT(MSG_NOSIGNAL);
  OFFSET(struct sockaddr_un, sun_path);
  SIZE(struct sockaddr_nl);
  OFFSET(struct sockaddr_nl, nl_pid);

  SIZE(struct nlmsghdr);
  OFFSET(struct nlmsghdr, nlmsg_type);
  OFFSET(struct nlmsghdr, nlmsg_flags);
  OFFSET(struct nlmsghdr, nlmsg_seq);
  SIZE(struct nlattr);
  OFFSET(struct nlattr, nla_type);
  OFFSET(struct nlmsgerr, msg);
  CONSTANT(NLMSG_ERROR);
  CONSTANT(NLMSG_DONE);
  CONSTANT(NLM_F_REQUEST);
  CONSTANT(NLM_F_ACK);
  CONSTANT(NLM_F_DUMP);
  CONSTANT(NLM_F_DUMP_INTR);
  CONSTANT(NLM_F_CAPPED);
  CONSTANT(NLM_F_ACK_TLVS);
  CONSTANT(NLA_F_NESTED);
  CONSTANT(NLMSGERR_ATTR_MSG);
  CONSTANT(SOL_NETLINK);
  CONSTANT(NETLINK_CAP_ACK);
  CONSTANT(NETLINK_EXT_ACK);

  CONSTANT(NETLINK_NETFILTER);
  SIZE(struct nfgenmsg);
  CONSTANT(NFNL_SUBSYS_CTNETLINK);
  CONSTANT(IPCTNL_MSG_CT_GET);
  CONSTANT(IPCTNL_MSG_CT_DELETE);
  CONSTANT(CTA_TUPLE_ORIG);
  CONSTANT(CTA_TUPLE_REPLY);
  CONSTANT(CTA_ID);
  CONSTANT(CTA_ZONE);
  CONSTANT(CTA_FILTER);
  CONSTANT(CTA_TUPLE_IP);
  CONSTANT(CTA_TUPLE_PROTO);
  CONSTANT(CTA_TUPLE_ZONE);
  CONSTANT(CTA_IP_V4_SRC);
  CONSTANT(CTA_IP_V4_DST);
  CONSTANT(CTA_IP_V6_SRC);
  CONSTANT(CTA_IP_V6_DST);
  CONSTANT(CTA_PROTO_NUM);
  CONSTANT(CTA_PROTO_SRC_PORT);
  CONSTANT(CTA_PROTO_DST_PORT);
  CONSTANT(CTA_FILTER_ORIG_FLAGS);
  printf("\n}\n");
  return 0;
}
