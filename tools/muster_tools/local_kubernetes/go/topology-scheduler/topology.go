package main

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// zones are the GPUs of one node as its object says: free ones by NUMA zone, and how many the largest zone has in all.
type zones struct {
	free []int64
	size int64
}

// topologies holds the zones of every node, and what this scheduler placed there since the node's object was written:
// the objects are written now and then, and pods are placed all the time.
type topologies struct {
	mutex    sync.RWMutex
	nodes    map[string]zones
	reserved map[string][]int64
}

func newTopologies() *topologies {
	return &topologies{nodes: map[string]zones{}, reserved: map[string][]int64{}}
}

// seen takes an object as it is now. What was reserved before is forgotten: the writer has counted it by then.
func (t *topologies) seen(object any) {
	found, ok := object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.nodes[found.GetName()] = zonesOf(found)
	delete(t.reserved, found.GetName())
}

func (t *topologies) gone(node string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	delete(t.nodes, node)
	delete(t.reserved, node)
}

func (t *topologies) reserve(node string, gpus int64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.reserved[node] = append(t.reserved[node], gpus)
}

func (t *topologies) unreserve(node string, gpus int64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if index := slices.Index(t.reserved[node], gpus); index >= 0 {
		t.reserved[node] = slices.Delete(t.reserved[node], index, index+1)
	}
}

// after answers how many GPUs a node has free once so many more are taken; false if they do not fit.
func (t *topologies) after(node string, gpus int64) (int64, bool) {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	known, ok := t.nodes[node]
	if !ok {
		return 0, false
	}
	left := zones{slices.Clone(known.free), known.size}
	for _, held := range t.reserved[node] {
		left.take(held)
	}
	fits := left.take(gpus)
	return left.sum(), fits
}

// take takes GPUs of one zone, of the fullest that has enough; what no zone could ever hold is taken of all.
func (z zones) take(gpus int64) bool {
	slices.Sort(z.free)
	for index, free := range z.free {
		if free >= gpus {
			z.free[index] -= gpus
			return true
		}
	}
	if gpus <= z.size || gpus > z.sum() {
		return false
	}
	for index := range z.free {
		part := min(z.free[index], gpus)
		z.free[index] -= part
		gpus -= part
	}
	return true
}

func (z zones) sum() int64 {
	var total int64
	for _, free := range z.free {
		total += free
	}
	return total
}

func zonesOf(object *unstructured.Unstructured) zones {
	var found zones
	listed, _, _ := unstructured.NestedSlice(object.Object, "zones")
	for _, zone := range listed {
		fields, ok := zone.(map[string]any)
		if !ok {
			continue
		}
		resources, _, _ := unstructured.NestedSlice(fields, "resources")
		for _, each := range resources {
			entry, ok := each.(map[string]any)
			if !ok || entry["name"] != string(gpu) {
				continue
			}
			found.free = append(found.free, quantityOf(entry["available"]))
			found.size = max(found.size, quantityOf(entry["capacity"]))
		}
	}
	return found
}

func quantityOf(value any) int64 {
	text, _ := value.(string)
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return 0
	}
	return quantity.Value()
}
