import type { ComponentType } from "preact";
import { useEffect, useErrorBoundary, useState } from "preact/hooks";
import { ApiProblem } from "./api";
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
        <Empty title={`No page exists at ${here}`}>
          The navigation lists all pages; <kbd>/</kbd> searches.
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
  if (broken) {
    const problem = new ApiProblem({
      title: "This page failed",
      detail: String(broken),
      status: 0,
      cure: "This is a defect of the dashboard. Please report it.",
    });
    return <Broken problem={problem} retry={mend} />;
  }
  if (loaded.error !== undefined) {
    const problem = new ApiProblem({
      title: "This page could not be loaded",
      status: 0,
      cure: "Muster was updated, or the gateway cannot be reached. Reload the page.",
    });
    return <Broken problem={problem} retry={() => location.reload()} />;
  }
  const Shown = loaded.page;
  return Shown ? <Shown id={id} key={id} /> : <Waiting />;
}
