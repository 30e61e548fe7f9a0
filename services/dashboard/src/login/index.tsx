import { useSignal } from "@preact/signals";
import { api, asProblem } from "../api";
import { loggedOutBecause, logIn } from "../session";
import type { Me } from "../wire";

/** Who has no token is asked for one; it is tried before it is kept. */
export function Login() {
  const given = useSignal("");
  const remember = useSignal(false);
  const busy = useSignal(false);
  const wrong = useSignal("");
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const token = given.value.trim();
    if (!token || busy.value) {
      return;
    }
    busy.value = true;
    wrong.value = "";
    try {
      await api.get<Me>("/v1/me", { as: token });
      logIn(token, { remember: remember.value });
    } catch (error) {
      const problem = asProblem(error);
      wrong.value =
        problem.status === 401
          ? "Invalid token: it was mistyped, was revoked, or belongs to another Muster installation."
          : problem.message;
    } finally {
      busy.value = false;
    }
  };
  return (
    <main class="login">
      <form class="login-card" onSubmit={(event) => void submit(event)}>
        <h1>
          <svg viewBox="0 0 32 32" width="28" height="28" aria-hidden="true">
            <path
              fill="currentColor"
              d="M4 4h4v4h-4zM4 9h4v4h-4zM4 14h4v4h-4zM4 19h4v4h-4zM4 24h4v4h-4zM24 4h4v4h-4zM24 9h4v4h-4zM24 14h4v4h-4zM24 19h4v4h-4zM24 24h4v4h-4zM9 9h4v4h-4zM14 14h4v4h-4zM19 9h4v4h-4z"
            />
          </svg>
          Muster
        </h1>
        {loggedOutBecause.value && <p class="note note-warn">{loggedOutBecause.value}</p>}
        <label for="token">API token</label>
        <input
          id="token"
          type="password"
          autocomplete="current-password"
          spellcheck={false}
          value={given.value}
          aria-describedby="token-help"
          aria-invalid={wrong.value !== ""}
          onInput={(event) => {
            given.value = event.currentTarget.value;
          }}
        />
        {wrong.value && (
          <p class="note note-bad" role="alert">
            {wrong.value}
          </p>
        )}
        <label class="check">
          <input
            type="checkbox"
            checked={remember.value}
            onChange={(event) => {
              remember.value = event.currentTarget.checked;
            }}
          />
          Remember the token in this browser
        </label>
        <button type="submit" class="button button-main" disabled={busy.value}>
          {busy.value ? "Logging in …" : "Log in"}
        </button>
        <p id="token-help" class="muted">
          <code>muster dashboard</code> opens this page with your token. An operator makes tokens for others with{" "}
          <code>muster token create</code>.
        </p>
      </form>
    </main>
  );
}
