//go:build tools

// Package tools names the store of the control plane, so that go.mod keeps what it needs.
package tools

import _ "go.etcd.io/etcd/server/v3"
