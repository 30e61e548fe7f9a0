import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Banner, Chip } from "./frame/chip";
import { DiagnosticsPanel } from "./frame/diagnostics_panel";
import { KeyHelp } from "./frame/help";
import { OfferedToken } from "./frame/offered_token";
import { Search } from "./frame/search";
import { store } from "./live/store";
import { Login } from "./login";
import { Outlet } from "./outlet";
import { isWithin, NAVIGATION, type Nav } from "./pages";
import { navigate, path } from "./route";
import { logOut, offeredToken, token } from "./session";
import { nextTheme, theme } from "./theme";
import { useHotkey } from "./ui";
import { Toasts } from "./ui/toast";

export function App() {
  return (
    <>
      {token.value ? <Frame /> : <Login />}
      {token.value && offeredToken.value && <OfferedToken key={offeredToken.value} offered={offeredToken.value} />}
      <Toasts />
    </>
  );
}

type Open = "" | "help" | "search" | "diagnostics";

/** Navigation, what stands over every page, and the page. */
function Frame() {
  const open = useSignal<Open>("");
  const toggle = (what: Open): void => {
    open.value = open.peek() === what ? "" : what;
  };
  useHotkey("/", "Search for pages, jobs, nodes, queues", () => toggle("search"));
  useHotkey("?", "These keys", () => toggle("help"));
  useHotkey("t", "Theme: system, dark, light", nextTheme);
  useHotkey("d", "Performance of this page", () => toggle("diagnostics"));
  return (
    <div class="frame">
      <a class="skip" href="#main">
        To the content
      </a>
      <Sidebar />
      <header class="topbar">
        <button type="button" class="search-button" onClick={() => toggle("search")}>
          <span>Search</span>
          <kbd>/</kbd>
        </button>
        <Chip />
        <button
          type="button"
          class="button button-quiet"
          aria-label={`Theme: ${theme.value}`}
          title={`Theme: ${theme.value}`}
          onClick={nextTheme}
        >
          <ThemeIcon />
        </button>
        <button
          type="button"
          class="button button-quiet not-on-phone"
          aria-label="Keys"
          title="Keys (?)"
          onClick={() => toggle("help")}
        >
          ?
        </button>
        <Account />
      </header>
      <Banner />
      <main id="main" tabIndex={-1}>
        <Outlet />
      </main>
      {open.value === "help" && <KeyHelp onClose={() => toggle("help")} />}
      {open.value === "search" && <Search onClose={() => toggle("search")} />}
      {open.value === "diagnostics" && <DiagnosticsPanel onClose={() => toggle("diagnostics")} />}
    </div>
  );
}

function Sidebar() {
  return (
    <nav class="sidebar" aria-label="Pages">
      <a class="brand" href="/fleet" aria-label="Muster: go to the fleet">
        <svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
          <path
            fill="currentColor"
            d="M4 4h4v4h-4zM4 9h4v4h-4zM4 14h4v4h-4zM4 19h4v4h-4zM4 24h4v4h-4zM24 4h4v4h-4zM24 9h4v4h-4zM24 14h4v4h-4zM24 19h4v4h-4zM24 24h4v4h-4zM9 9h4v4h-4zM14 14h4v4h-4zM19 9h4v4h-4z"
          />
        </svg>
        <span>Muster</span>
      </a>
      <ul>
        {NAVIGATION.map((nav) => (
          <Entry key={nav.path} nav={nav} />
        ))}
      </ul>
    </nav>
  );
}

function Entry({ nav }: { nav: Nav }) {
  useHotkey(`g ${nav.key}`, `Go to ${nav.title}`, () => navigate(nav.path));
  const link = useRef<HTMLAnchorElement>(null);
  const isHere = isWithin(nav, path.value);
  useEffect(() => {
    if (isHere) {
      link.current?.scrollIntoView({ block: "nearest", inline: "nearest" }); // a phone has no room for all of them
    }
  }, [isHere]);
  return (
    <li>
      <a ref={link} href={nav.path} aria-current={isHere ? "page" : undefined}>
        <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true">
          <path fill="currentColor" d={nav.icon} />
        </svg>
        <span>{nav.title}</span>
      </a>
    </li>
  );
}

function Account() {
  const me = store.me.value;
  return (
    <div class="account">
      {me && (
        <span class="account-name" title={me.teams.length > 0 ? `Teams: ${me.teams.join(", ")}` : "No team"}>
          {me.principal}
          <small>{me.role}</small>
        </span>
      )}
      <button type="button" class="button button-quiet" onClick={() => logOut()}>
        Log out
      </button>
    </div>
  );
}

function ThemeIcon() {
  const shapes = {
    auto: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm0 2a7 7 0 0 1 0 14z",
    dark: "M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z",
    light: "M12 7.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM11 2h2v3h-2zM11 19h2v3h-2zM2 11h3v2H2zM19 11h3v2h-3z",
  };
  return (
    <svg viewBox="0 0 24 24" width="18" height="18" aria-hidden="true">
      <path fill="currentColor" fill-rule="evenodd" d={shapes[theme.value]} />
    </svg>
  );
}
