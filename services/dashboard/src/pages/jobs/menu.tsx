import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

interface MenuProps {
  /** On the button. */
  title: ComponentChildren;
  /** Names what opens. */
  label: string;
  isMarked?: boolean;
  children: (close: () => void) => ComponentChildren;
}

/** A button that opens a small panel below it. Escape, a click elsewhere and leaving it by Tab close it. */
export function Menu({ title, label, isMarked = false, children }: MenuProps) {
  const [isOpen, setIsOpen] = useState(false);
  const whole = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const close = () => {
    setIsOpen(false);
    button.current?.focus();
  };
  useEffect(() => {
    if (!isOpen) return undefined;
    whole.current?.querySelector<HTMLElement>("[data-first], .menu-panel input, .menu-panel button")?.focus();
    const elsewhere = (event: Event) => {
      if (event.target instanceof Node && !whole.current?.contains(event.target)) setIsOpen(false);
    };
    document.addEventListener("pointerdown", elsewhere);
    document.addEventListener("focusin", elsewhere);
    return () => {
      document.removeEventListener("pointerdown", elsewhere);
      document.removeEventListener("focusin", elsewhere);
    };
  }, [isOpen]);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: only Escape is heard here, from the controls inside
    <div
      class="menu"
      ref={whole}
      onKeyDown={(event) => {
        if (event.key === "Escape" && isOpen) {
          event.stopPropagation();
          close();
        }
      }}
    >
      <button
        type="button"
        class="button"
        ref={button}
        aria-haspopup="dialog"
        aria-expanded={isOpen}
        aria-pressed={isMarked || undefined}
        onClick={() => setIsOpen(!isOpen)}
      >
        {title}
        <span aria-hidden="true" class="menu-caret" />
      </button>
      {isOpen && (
        // a click on words in it focuses the panel, not the page below, which would close it
        <div class="menu-panel" role="dialog" aria-label={label} tabIndex={-1}>
          {children(close)}
        </div>
      )}
    </div>
  );
}
