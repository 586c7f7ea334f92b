/** The form of docs/reliability.json. */
import type { CampaignResult } from '../sim/campaign.ts';
import type { SoakResult } from '../soak/result.ts';
import type { Measured } from './machine.ts';

/** A part as a table, with what is said about it. */
export interface RecordedTable extends Measured {
  /** The command that ran. */
  readonly command: string;
  /** Sentences that stand before the table. */
  readonly text: readonly string[];
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** Histories of seeds that follow each other. */
export interface RecordedHistories extends Measured {
  /** The first seed. */
  readonly first: number;
  readonly found: CampaignResult;
  /** How many of them a real kernel repeated. */
  readonly compared: number;
}

/** Parts that nobody recorded are missing. */
export interface Results {
  readonly soak?: SoakResult;
  /** A soak in turn with an earlier version, which is that of this commit. */
  readonly versions?: {
    readonly former: string;
    readonly found: SoakResult;
    /** One version apart, where the kernel has IPVS; not in records of earlier commits. */
    readonly tests?: readonly { readonly name: string; readonly isRight: boolean }[];
  };
  readonly simulator?: RecordedHistories;
  /** Between two writes. */
  readonly prefixes?: RecordedTable;
  readonly mutations?: RecordedTable;
  readonly fuzz?: RecordedTable;
  readonly kernels?: RecordedTable;
  /** Stories with real packets in IPVS mode. */
  readonly stories?: RecordedTable;
  /** The same through a real kube-proxy, in each mode. */
  readonly rivals?: RecordedTable;
}
