import { Empty, Page } from "../../ui";

export default function Job({ id }: { id: string }) {
  return (
    <Page title={`Job ${id.slice(0, 8)}`}>
      <Empty title="Not here yet" />
    </Page>
  );
}
