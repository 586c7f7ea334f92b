/** Devices and addresses of the simulated machine at the bytes of rtnetlink (rtnetlink.c, devinet.c, addrconf.c). */
import { EADDRNOTAVAIL, EEXIST, ENODEV, EOPNOTSUPP } from '../../../../native/errno.ts';
import { AF_INET, AF_INET6 } from '../../../../native/libc.ts';
import { attribute, HEADER_LENGTH, nested, textAt } from '../../../../native/netlink.ts';
import {
  decodeAddress,
  IFA_ADDRESS,
  IFA_LOCAL,
  IFINFOMSG,
  IFLA_IFNAME,
  IFLA_INFO_KIND,
  IFLA_LINKINFO,
  RTM_DELADDR,
  RTM_DELLINK,
  RTM_GETADDR,
  RTM_GETLINK,
  RTM_NEWADDR,
  RTM_NEWLINK,
} from '../../../../native/rtnetlink.ts';
import {
  type Address,
  addressOctets,
  addressOfBytes,
  type Family,
  familyOf,
  isLoopback,
} from '../../../../src/base/address.ts';
import { SERVICE_DEVICE } from '../../../../src/kernel/devices.ts';
import { Refused, type Request, type Said, textAttribute, u32 } from '../netlink/format.ts';
import type { Listed } from '../netlink/listing.ts';
import type { Answers } from '../netlink/request-part.ts';
import type { CarryOut, SimIpvs } from './ipvs.ts';

/** The numbers of the machine's devices. */
const LOOPBACK = 1;
const ETHERNET = 2;
const SERVICES = 7;

const NAMES: Readonly<Record<number, string>> = {
  [RTM_NEWLINK]: 'add a device',
  [RTM_DELLINK]: 'remove a device',
  [RTM_GETLINK]: 'ask for a device',
  [RTM_NEWADDR]: 'add an address',
  [RTM_DELADDR]: 'remove an address',
  [RTM_GETADDR]: 'list addresses',
};

export class RouteAnswers implements Answers {
  readonly #ipvs: SimIpvs;
  readonly #carryOut: CarryOut;
  /** Addresses of the other devices. */
  readonly #others: (family: Family) => readonly Address[];
  /** The addresses that a listing met last, and how often they were others. */
  #met = { addresses: '', changes: 0 };

  constructor(ipvs: SimIpvs, carryOut: CarryOut, others: (family: Family) => readonly Address[]) {
    this.#ipvs = ipvs;
    this.#carryOut = carryOut;
    this.#others = others;
  }

  what({ type }: Request): string {
    return NAMES[type] ?? `request ${type}`;
  }

  answer(request: Request): readonly Said[] {
    const { type, bytes } = request;
    switch (type) {
      case RTM_GETLINK:
        this.#mustHaveDevice(nameIn(bytes));
        return [{ type: RTM_NEWLINK, body: linkBody() }];
      case RTM_NEWLINK:
        return this.#carryOut({ kind: 'add-device' }, { exists: EEXIST });
      case RTM_DELLINK:
        this.#mustHaveDevice(nameIn(bytes));
        return this.#carryOut({ kind: 'remove-device' }, { missing: ENODEV });
      case RTM_NEWADDR:
        return this.#carryOut({ kind: 'add-address', address: this.#addressIn(bytes) }, { missing: ENODEV });
      case RTM_DELADDR:
        return this.#carryOut({ kind: 'remove-address', address: this.#addressIn(bytes) }, { missing: EADDRNOTAVAIL });
      default:
        throw new Refused(EOPNOTSUPP);
    }
  }

  list({ type, bytes }: Request): Listed {
    if (type !== RTM_GETADDR) throw new Refused(EOPNOTSUPP);
    const family = bytes.readUInt8(HEADER_LENGTH) === AF_INET ? 'IPv4' : 'IPv6';
    const all = () => [
      ...this.#others(family).map((address) => ({ address, index: isLoopback(address) ? LOOPBACK : ETHERNET })),
      ...[...this.#ipvs.state.addresses].map((address) => ({ address, index: SERVICES })),
    ];
    return {
      entries: () =>
        all()
          .filter(({ address }) => familyOf(address) === family)
          .map((one) => () => ({ type: RTM_NEWADDR, body: addressBody(one) })),
      // inet_base_seq moves with each address and device.
      version: () => {
        const addresses = JSON.stringify([this.#ipvs.state.hasDevice, all()]);
        if (this.#met.addresses !== addresses) this.#met = { addresses, changes: this.#met.changes + 1 };
        return this.#met.changes;
      },
    };
  }

  #mustHaveDevice(name: string | undefined): void {
    if (name !== SERVICE_DEVICE || !this.#ipvs.state.hasDevice) throw new Refused(ENODEV);
  }

  #addressIn(bytes: Buffer): Address {
    const found = decodeAddress(bytes, {
      type: 0,
      flags: 0,
      sequence: 0,
      port: 0,
      start: HEADER_LENGTH,
      end: bytes.length,
    });
    if (found === undefined || found.index !== SERVICES || !this.#ipvs.state.hasDevice) throw new Refused(ENODEV);
    return addressOfBytes(found.bytes);
  }
}

function nameIn(bytes: Buffer): string | undefined {
  return textAt(bytes, HEADER_LENGTH + IFINFOMSG, bytes.length, IFLA_IFNAME);
}

function linkBody(): Buffer {
  const header = Buffer.alloc(IFINFOMSG);
  header.writeInt32LE(SERVICES, 4);
  const kind = nested(IFLA_LINKINFO, textAttribute(IFLA_INFO_KIND, 'dummy'));
  return Buffer.concat([header, textAttribute(IFLA_IFNAME, SERVICE_DEVICE), kind]);
}

function addressBody({ address, index }: { readonly address: Address; readonly index: number }): Buffer {
  const octets = addressOctets(address);
  const header = Buffer.from([
    octets.length === 4 ? AF_INET : AF_INET6,
    octets.length * 8,
    0,
    0,
    ...u32(index, 'machine'),
  ]);
  return Buffer.concat([header, attribute(IFA_ADDRESS, octets), attribute(IFA_LOCAL, octets)]);
}
