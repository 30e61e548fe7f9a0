/** When a credential is to be replaced, and how long to wait before trying again: pure. */

/** Of its lifetime, so much is used before the next one is fetched. */
const USED_SHARE = 0.75;
const RETRY_MS = 500;
export const RETRY_MS_MAX = 15_000;
/** If a credential does not tell its lifetime. */
const LIFETIME_S = 300;

/**
 * Milliseconds from receipt to renewal. The token's own two instants are compared, never this machine's clock.
 */
export function renewAfterMs(jwt: string): number {
  const { iat, exp } = claims(jwt);
  const lifetimeS = exp > iat ? exp - iat : LIFETIME_S;
  return lifetimeS * 1000 * USED_SHARE;
}

function claims(jwt: string): { iat: number; exp: number } {
  try {
    const part = (jwt.split(".")[1] ?? "").replaceAll("-", "+").replaceAll("_", "/");
    const { iat, exp } = JSON.parse(atob(part)) as { iat?: unknown; exp?: unknown };
    return { iat: Number(iat) || 0, exp: Number(exp) || 0 };
  } catch {
    return { iat: 0, exp: 0 };
  }
}

/** Full jitter over a doubling range, so that dashboards that lost one broker do not come back at one moment. */
export function retryAfterMs(failures: number, jitter: number): number {
  const rangeMs = Math.min(RETRY_MS * 2 ** failures, RETRY_MS_MAX);
  return rangeMs / 2 + (rangeMs / 2) * jitter;
}
