import { useState } from "preact/hooks";
import { store } from "../../live/store";
import { navigate } from "../../route";
import { toast } from "../../ui";
import { Menu } from "./menu";
import { commonViews, dropView, keepView, keptViews, NAME_CHARS_MAX, type View } from "./views";

/** Views by name. search: what the address says now, after `?`. */
export function ViewsMenu({ search }: { search: string }) {
  const [kept, setKept] = useState(() => keptViews(localStorage));
  const common = commonViews(store.me.value?.principal ?? "");
  const known = [...common, ...kept].find((view) => new URLSearchParams(view.search).toString() === search);
  return (
    <Menu title={known ? known.name : "Views"} label="Views of the table" isMarked={known !== undefined}>
      {(close) => (
        <div class="menu-list">
          <p class="menu-title">Views</p>
          {common.map((view) => (
            <ViewRow key={view.name} view={view} isNow={view === known} close={close} />
          ))}
          {kept.length > 0 && <p class="menu-title">Saved in this browser</p>}
          {kept.map((view) => (
            <div class="view-kept" key={view.name}>
              <ViewRow view={view} isNow={view === known} close={close} />
              <button
                type="button"
                class="filter-tag-drop"
                aria-label={`Delete the view ${view.name}`}
                onClick={() => setKept(dropView(localStorage, view.name))}
              >
                ✕
              </button>
            </div>
          ))}
          <KeepView onKeep={(name) => setKept(keepView(localStorage, name, search))} />
        </div>
      )}
    </Menu>
  );
}

function ViewRow({ view, isNow, close }: { view: View; isNow: boolean; close: () => void }) {
  return (
    <button
      type="button"
      class="menu-row"
      title={view.about}
      aria-current={isNow || undefined}
      onClick={() => {
        navigate(`/jobs${view.search && `?${view.search}`}`);
        close();
      }}
    >
      {view.name}
    </button>
  );
}

function KeepView({ onKeep }: { onKeep: (name: string) => void }) {
  const [name, setName] = useState("");
  return (
    <form
      class="menu-form"
      onSubmit={(event) => {
        event.preventDefault();
        if (name.trim()) onKeep(name);
        setName("");
      }}
    >
      <label>
        <span class="menu-title">Save the current view as</span>
        <input maxLength={NAME_CHARS_MAX} value={name} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <div class="view-buttons">
        <button type="submit" class="button button-main" disabled={!name.trim()}>
          Save
        </button>
        <button type="button" class="button" onClick={() => void copyAddress()}>
          Copy the address
        </button>
      </div>
    </form>
  );
}

async function copyAddress(): Promise<void> {
  try {
    await navigator.clipboard.writeText(location.href);
    toast("The address was copied. It opens this view.");
  } catch {
    toast("The browser does not allow copying. Copy the address from the address bar.", { bad: true });
  }
}
