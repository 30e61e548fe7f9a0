//go:build tools

// Package tools names the program that plays the kubelets, so that go.mod keeps what it needs.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
