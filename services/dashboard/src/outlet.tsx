import type { ComponentType } from "preact";
import { useEffect, useErrorBoundary, useState } from "preact/hooks";
import { asProblem } from "./api";
import { pageOf } from "./pages";
import { path } from "./route";
import { Broken, Empty, Page, Waiting } from "./ui";

type AnyPage = ComponentType<{ id: string }>;

/** The page of the present path. */
export function Outlet() {
  const here = path.value;
  const page = pageOf(here);
  if (!page) {
    return (
      <Page title="No such page">
        <Empty title={`There is no page at ${here}`}>
          The navigation lists all there are; <kbd>/</kbd> searches.
        </Empty>
      </Page>
    );
  }
  return <Loaded key={page.load} load={page.load} id={page.id} />;
}

function Loaded({ load, id }: { load: () => Promise<{ default: unknown }>; id: string }) {
  const [loaded, setLoaded] = useState<{ page?: AnyPage; error?: unknown }>({});
  const [broken, mend] = useErrorBoundary();
  useEffect(() => {
    let left = false;
    load().then(
      (module) => !left && setLoaded({ page: module.default as AnyPage }),
      (error: unknown) => !left && setLoaded({ error }),
    );
    return () => {
      left = true;
    };
  }, [load]);
  if (loaded.error !== undefined || broken) {
    const again = broken ? mend : () => location.reload();
    return <Broken problem={asProblem(broken ?? loaded.error)} retry={again} />;
  }
  const Shown = loaded.page;
  return Shown ? <Shown id={id} key={id} /> : <Waiting />;
}
