import { useState } from "preact/hooks";
import { api } from "../../api";
import { store } from "../../live/store";
import { ActionButton, AskReason, toast, useCluster } from "../../ui";
import type { CampaignView } from "../../wire";
import { type Ask, actionsFor } from "./words";

interface Asked {
  title: string;
  verb: string;
  about: string;
  told: string;
}

const ASKED: Readonly<Record<Ask, Asked>> = {
  pause: {
    title: "Pause this campaign?",
    verb: "Pause it",
    about:
      "No further node is taken, and those that wait for jobs go back to them. What is being upgraded goes on to its end.",
    told: "Asked to be paused.",
  },
  resume: {
    title: "Go on with this campaign?",
    verb: "Go on",
    about: "Nodes are taken again as their turns come. Those that failed are tried again.",
    told: "Asked to go on.",
  },
  abort: {
    title: "Abort this campaign?",
    verb: "Abort it",
    about: "No further node is taken, and it does not go on. What is being upgraded goes on to its end.",
    told: "Asked to be aborted.",
  },
};

/** What may be asked of a campaign; what may not is shown with the reason. */
export function Actions({ campaign, onChange }: { campaign: CampaignView; onChange: () => void }) {
  const [asked, setAsked] = useState<Ask | "">("");
  const cluster = useCluster();
  const said = asked && ASKED[asked];
  return (
    <>
      {actionsFor(campaign, store.me.value).map(({ name, title, why }) => (
        <ActionButton key={name} title={title} why={why} danger={name === "abort"} onAsk={() => setAsked(name)} />
      ))}
      {said && (
        <AskReason
          title={said.title}
          verb={said.verb}
          danger={asked === "abort"}
          onClose={() => setAsked("")}
          ask={async (reason) => {
            const why = reason && `?reason=${encodeURIComponent(reason)}`;
            await api.post(cluster.asked(`/v1/campaigns/${encodeURIComponent(campaign.name)}/${asked}${why}`));
            toast(said.told);
            onChange();
          }}
        >
          <p>{said.about}</p>
        </AskReason>
      )}
    </>
  );
}
