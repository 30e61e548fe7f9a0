import { useSignal } from "@preact/signals";
import { store } from "../live/store";
import { NAVIGATION } from "../pages";
import { navigate } from "../route";
import { Dialog } from "../ui";

interface Found {
  what: string;
  name: string;
  note: string;
  to: string;
}

const FOUND_MAX = 12;

/** Go anywhere by typing a part of its name. */
export function Search({ onClose }: { onClose: () => void }) {
  const text = useSignal("");
  const chosen = useSignal(0);
  store.version.jobs.value; // what is found stays true while it is looked at
  const found = find(text.value.trim().toLowerCase());
  const place = Math.min(chosen.value, Math.max(0, found.length - 1));
  const go = (to: string): void => {
    onClose();
    navigate(to);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key] ?? 0;
    if (step) {
      event.preventDefault();
      chosen.value = (place + step + found.length) % Math.max(1, found.length);
    } else if (event.key === "Enter" && found[place]) {
      event.preventDefault();
      go(found[place].to);
    }
  };
  return (
    <Dialog title="Search" onClose={onClose}>
      <input
        class="search-input"
        type="text"
        role="combobox"
        aria-label="Page, job, node or queue"
        aria-expanded="true"
        aria-controls="search-found"
        aria-activedescendant={found[place] ? `found-${place}` : undefined}
        placeholder="Page, job, node or queue"
        autocomplete="off"
        spellcheck={false}
        autofocus
        value={text.value}
        onInput={(event) => {
          text.value = event.currentTarget.value;
          chosen.value = 0;
        }}
        onKeyDown={onKeyDown}
      />
      <div id="search-found" class="found" role="listbox" aria-label="Found">
        {found.map(({ what, name, note, to }, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field above has the keys
          // biome-ignore lint/a11y/useFocusableInteractive: the field above keeps the focus
          <div
            key={to}
            id={`found-${index}`}
            role="option"
            aria-selected={index === place}
            class="found-row"
            onClick={() => go(to)}
          >
            <span class="muted">{what}</span>
            <span>{name}</span>
            <span class="muted">{note}</span>
          </div>
        ))}
      </div>
      {found.length === 0 && (
        <p class="muted">No live object has this name. To find a job that ended long ago, enter its full ID.</p>
      )}
    </Dialog>
  );
}

const WHOLE_ID = /^[A-Z2-7]{26}$/i;

function find(text: string): Found[] {
  const found: Found[] = [];
  for (const { path, title } of NAVIGATION) {
    if (title.toLowerCase().includes(text)) {
      found.push({ what: "page", name: title, note: "", to: path });
    }
  }
  if (!text) {
    return found;
  }
  const named = <Row extends { name: string }>(rows: Iterable<Row>, make: (row: Row) => Found): void => {
    for (const row of rows) {
      if (found.length >= FOUND_MAX) {
        return;
      }
      if (row.name.toLowerCase().includes(text)) {
        found.push(make(row));
      }
    }
  };
  named(store.queues.values(), ({ name }) => ({
    what: "queue",
    name,
    note: "",
    to: `/queues?queue=${encodeURIComponent(name)}`,
  }));
  named(store.nodes.values(), ({ name, gpu_model }) => ({
    what: "node",
    name,
    note: gpu_model,
    to: `/fleet?node=${encodeURIComponent(name)}`,
  }));
  for (const { id, name, phase, team } of store.jobs.values()) {
    if (found.length >= FOUND_MAX) {
      break;
    }
    if (name.toLowerCase().includes(text) || id.toLowerCase().startsWith(text)) {
      found.push({ what: "job", name, note: `${phase} · ${team} · ${id.slice(0, 8)}`, to: `/jobs/${id}` });
    }
  }
  if (WHOLE_ID.test(text) && !store.jobs.has(text.toUpperCase())) {
    found.push({ what: "job", name: text.toUpperCase(), note: "by id", to: `/jobs/${text.toUpperCase()}` });
  }
  return found;
}
