/** slicewire's sets with the types that the kernel stores, and that `nft list` needs to print them. */
import type { SetSpec } from '../../native/nft/sets.ts';
import { type Part, typeofMap } from '../../native/nft/typeof.ts';
import type { Family } from '../base/address.ts';
import type { Field, NftSet } from './nftables-kernel.ts';

/**
 * Numbers of nft's data types (nft's datatype.h: inet_proto, inet_service, mark), with which `nft` prints the table; six bits a
 * field. nft 1.0.6 and later read the type of a number from user data (`partsOf`). Older ones abort when they list an integer in a
 * concatenation (1.0.2: "Assertion `ilen > 0' failed"), but not a mark.
 */
const TYPES: Readonly<Record<Exclude<Field, 'address'>, number>> = { protocol: 12, port: 13, number: 19 };
const LENGTHS: Readonly<Record<Exclude<Field, 'address'>, number>> = { protocol: 1, port: 2, number: 4 };

/** A set of a family as the kernel takes it. */
export function setSpec(
  { name, key, data, hasRanges = false, isMemory = false, isCounting = false }: NftSet,
  family: Family,
): SetSpec {
  const value =
    data === undefined
      ? {}
      : {
          data:
            data === 'verdict' ? ('verdict' as const) : { type: typeOf(data, family), length: lengthOf(data, family) },
        };
  return {
    name,
    fields: key.map((field) => fieldLength(field, family)),
    keyType: typeOf(key, family),
    ...value,
    ...(key.includes('number') && Array.isArray(data)
      ? { userData: typeofMap(partsOf(key, family), partsOf(data, family)) }
      : {}),
    isInterval: hasRanges,
    isDynamic: isMemory,
    isCounting,
  };
}

/** The expressions that `nft` prints for the fields of a map of endpoints. */
function partsOf(fields: readonly Field[], family: Family): Part[] {
  return fields.map((field): Part => {
    if (field === 'address') return { kind: 'destination address', family };
    return { kind: field === 'number' ? 'random number' : field === 'port' ? 'destination port' : field };
  });
}

function fieldLength(field: Field, family: Family): number {
  return field === 'address' ? (family === 'IPv4' ? 4 : 16) : LENGTHS[field];
}

function lengthOf(fields: readonly Field[], family: Family): number {
  return fields.reduce((sum, field) => sum + Math.ceil(fieldLength(field, family) / 4) * 4, 0);
}

function typeOf(fields: readonly Field[], family: Family): number {
  return fields.reduce(
    (sum, field) => (sum << 6) | (field === 'address' ? (family === 'IPv4' ? 7 : 8) : TYPES[field]),
    0,
  );
}
