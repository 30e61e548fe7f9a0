/** What pages are built of. */

export { ActionButton } from "./action_button";
export { Answered } from "./answered";
export { AskReason } from "./ask_reason";
export { Badge, PHASE_TONE, type Tone } from "./badge";
export { Bar, type BarMark, type BarPart } from "./bar";
export { ClusterChoice, useCluster } from "./cluster_choice";
export { Confirm, Dialog } from "./dialog";
export { type Fetched, useFetched } from "./fetched";
export * as format from "./format";
export { useHotkey } from "./keys";
export { Page, Pairs, Panel } from "./page";
export { useQueryParams } from "./query";
export { Broken, Empty, Waiting } from "./states";
export { type Column, type Sorting, Table } from "./table";
export { toast, toastProblem } from "./toast";
