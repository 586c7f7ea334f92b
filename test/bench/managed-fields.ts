/** `metadata.managedFields` as a real API server's objects have them: nobody here reads them, and everybody parses them. */

const SOME = { '.': {} };

export const managedFields = {
  /** Of a slice that belongs to the Service of this uid; written by the controller manager. */
  slice(serviceUid: string, time: string): object[] {
    const fieldsV1 = {
      'f:addressType': {},
      'f:endpoints': {},
      'f:metadata': {
        'f:annotations': { ...SOME, 'f:endpoints.kubernetes.io/last-change-trigger-time': {} },
        'f:generateName': {},
        'f:labels': {
          ...SOME,
          'f:endpointslice.kubernetes.io/managed-by': {},
          'f:kubernetes.io/service-name': {},
        },
        'f:ownerReferences': { ...SOME, [`k:{"uid":"${serviceUid}"}`]: {} },
      },
      'f:ports': {},
    };
    const by = { manager: 'kube-controller-manager', operation: 'Update', apiVersion: 'discovery.k8s.io/v1' };
    return [{ ...by, time, fieldsType: 'FieldsV1', fieldsV1 }];
  },

  /** Of a Service with these ports; written by Helm. */
  service(ports: readonly { readonly port: number; readonly protocol: string }[], time: string): object[] {
    const fields = { ...SOME, 'f:name': {}, 'f:port': {}, 'f:protocol': {}, 'f:targetPort': {} };
    const named = ports.map(({ port, protocol }) => [`k:{"port":${port},"protocol":"${protocol}"}`, fields]);
    const fieldsV1 = {
      'f:metadata': {
        'f:annotations': { ...SOME, 'f:meta.helm.sh/release-name': {}, 'f:meta.helm.sh/release-namespace': {} },
        'f:labels': { ...SOME, 'f:app.kubernetes.io/managed-by': {}, 'f:app.kubernetes.io/name': {} },
      },
      'f:spec': {
        'f:internalTrafficPolicy': {},
        'f:ports': { ...SOME, ...Object.fromEntries(named) },
        'f:selector': {},
        'f:sessionAffinity': {},
        'f:type': {},
      },
    };
    const by = { manager: 'helm', operation: 'Update', apiVersion: 'v1' };
    return [{ ...by, time, fieldsType: 'FieldsV1', fieldsV1 }];
  },
};
