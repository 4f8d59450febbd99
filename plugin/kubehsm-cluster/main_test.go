package main

import (
	"os"
	"testing"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/vcard"
)

func TestMain(m *testing.M) { os.Exit(vcard.Main(inside{m})) }

// inside is what runs in the namespaces of the cards, which have a network of their own.
type inside struct{ m *testing.M }

func (i inside) Run() int { return controlplane.Main(i.m) }
