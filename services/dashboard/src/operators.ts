/** What only operators may do, as the gateway will say it; it decides, this only foretells. */

import type { Me } from "./wire";

/** Why somebody may not act as an operator; "" if they may. verb: "reset the brake". */
export function whyNotOperator(me: Me | null, verb: string): string {
  if (!me) {
    return "Your identity is not known yet.";
  }
  if (me.role === "operator" || me.role === "admin") {
    return "";
  }
  return `Only operators and admins may ${verb}; ${me.principal} is a ${me.role}.`;
}
