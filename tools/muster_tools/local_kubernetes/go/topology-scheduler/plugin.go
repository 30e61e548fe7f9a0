package main

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

const (
	pluginName       = "NodeTopology"
	gpu              = v1.ResourceName("nvidia.com/gpu")
	syncWithin       = 60 * time.Second
	plural           = "noderesourcetopologies"
	group            = "topology.node.k8s.io"
	version          = "v1alpha2"
	event            = fwk.EventResource(plural + "." + version + "." + group)
	noZone           = "node(s) had no NUMA zone with enough GPUs"
	perCent    int64 = 100
)

type plugin struct {
	nodes *topologies
}

var (
	_ framework.FilterPlugin      = &plugin{}
	_ framework.ScorePlugin       = &plugin{}
	_ framework.ReservePlugin     = &plugin{}
	_ framework.EnqueueExtensions = &plugin{}
)

func newPlugin(ctx context.Context, _ runtime.Object, handle framework.Handle) (framework.Plugin, error) {
	config := *handle.KubeConfig()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := dynamic.NewForConfig(&config)
	if err != nil {
		return nil, err
	}
	found := &plugin{nodes: newTopologies()}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	informer := factory.ForResource(schema.GroupVersionResource{Group: group, Version: version, Resource: plural})
	_, err = informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    found.nodes.seen,
		UpdateFunc: func(_, now any) { found.nodes.seen(now) },
		DeleteFunc: func(object any) {
			if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
				found.nodes.gone(key)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	waiting, cancel := context.WithTimeout(ctx, syncWithin)
	defer cancel()
	if !cache.WaitForCacheSync(waiting.Done(), informer.Informer().HasSynced) {
		return nil, fmt.Errorf("%s.%s: not listed within %s; is its definition there?", plural, group, syncWithin)
	}
	return found, nil
}

func (p *plugin) Name() string { return pluginName }

func (p *plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable}},
		{Event: fwk.ClusterEvent{Resource: event, ActionType: fwk.Add | fwk.Update}},
	}, nil
}

func (p *plugin) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	wanted := gpusOf(pod)
	if wanted == 0 {
		return nil
	}
	if _, fits := p.nodes.after(node.Node().Name, wanted); !fits {
		return fwk.NewStatus(fwk.Unschedulable, noZone)
	}
	return nil
}

// Score prefers the node that is fullest afterwards.
func (p *plugin) Score(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	all := node.GetAllocatable().GetScalarResources()[gpu]
	left, fits := p.nodes.after(node.Node().Name, gpusOf(pod))
	if !fits || all == 0 {
		return 0, nil
	}
	return perCent - perCent*left/all, nil
}

func (p *plugin) ScoreExtensions() framework.ScoreExtensions { return nil }

func (p *plugin) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	p.nodes.reserve(node, gpusOf(pod))
	return nil
}

func (p *plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	p.nodes.unreserve(node, gpusOf(pod))
}

func gpusOf(pod *v1.Pod) int64 {
	var total int64
	for _, container := range pod.Spec.Containers {
		wanted := container.Resources.Requests[gpu]
		total += wanted.Value()
	}
	return total
}
