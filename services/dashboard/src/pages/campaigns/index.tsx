import { Answered, ClusterChoice, Empty, format, Page, Panel, useCluster, useFetched, useQueryParams } from "../../ui";
import type { CampaignView } from "../../wire";
import { CampaignPanel } from "./campaign_panel";
import "./style.css";
import { Campaigns } from "./tables";

const EVERY_MS = 5_000;

/** Upgrades of many nodes: how far each is, which node is next, when it ends. */
export default function CampaignsPage() {
  const { cluster, asked } = useCluster();
  const fetched = useFetched<{ campaigns: CampaignView[] }>(asked("/v1/campaigns"), { everyMs: EVERY_MS });
  const [{ name }, setParams] = useQueryParams({ name: "" });
  const campaigns = fetched.value?.campaigns ?? [];
  const shown = name || (campaigns[0]?.name ?? "");
  return (
    <Page title="Campaigns" note={fetched.value && noteOf(campaigns)} actions={<ClusterChoice clears={["name"]} />}>
      <Answered of={fetched} what="Loading campaigns">
        {() =>
          campaigns.length ? (
            <div class="campaigns">
              <Panel title="All campaigns" flush>
                <Campaigns campaigns={campaigns} chosen={shown} onChoose={(one) => setParams({ name: one })} />
              </Panel>
              <CampaignPanel key={`${cluster} ${shown}`} name={shown} onChange={fetched.again} />
            </div>
          ) : (
            <Panel>
              <Empty title="No campaigns">
                <p>
                  <code>muster upgrade plan</code> tells what a campaign would come to;{" "}
                  <code>muster upgrade start</code> starts it.
                </p>
              </Empty>
            </Panel>
          )
        }
      </Answered>
    </Page>
  );
}

function noteOf(campaigns: CampaignView[]): string {
  const over = campaigns.filter((one) => one.state === "ended").length;
  return `${format.count(campaigns.length - over)} under way, ${format.count(over)} over`;
}
