// Layout: one name for one folder however it is spelled, and names that fit the kernel.
package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLayoutIsOneForAllSpellingsOfAFolder(t *testing.T) {
	real := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	want, err := newLayout(real)
	if err != nil {
		t.Fatal(err)
	}
	for _, spelling := range []string{real + "/", link, real + "/../" + filepath.Base(real)} {
		if got, err := newLayout(spelling); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", spelling, got, err, want)
		}
	}
}

func TestLayoutOfAFolderToBeMadeIsThatOfTheFolderMade(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), parent); err != nil {
		t.Fatal(err)
	}
	before, err := newLayout(parent + "/new")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(parent+"/new", 0o755); err != nil {
		t.Fatal(err)
	}
	if after, err := newLayout(parent + "/new"); err != nil || after != before {
		t.Errorf("before %v, after %v, %v", before, after, err)
	}
}

func TestLinkNamesFitTheKernel(t *testing.T) {
	layout, err := newLayout(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	node := layout.node(nodesMax)
	for _, name := range []string{layout.linkBridge(), node.hostLink(), node.podBridge()} {
		if len(name) > 15 {
			t.Errorf("%s has %d bytes", name, len(name))
		}
	}
}

func TestFoldersDiffer(t *testing.T) {
	one, _ := newLayout("/tmp/one")
	two, _ := newLayout("/tmp/two")
	if one.Tag == two.Tag {
		t.Errorf("both have the tag %s", one.Tag)
	}
}

func TestNetworkAddressesOfNodes(t *testing.T) {
	layout, _ := newLayout("/tmp/x")
	network := Network{Number: 7, APIAddress: "198.18.7.1", ServiceCIDR: "198.19.7.0/24"}
	cases := []struct{ name, got, want string }{
		{"TheFirstComesAfterTheAPIServer", network.nodeAddress(layout.node(1)), "198.18.7.2"},
		{"Third", network.nodeAddress(layout.node(3)), "198.18.7.4"},
		{"PodsOfTheThird", network.podCIDR(layout.node(3)), "10.243.7.0/24"},
		{"Service", network.serviceAddress(), "198.19.7.1"},
	}
	for _, c := range cases {
		if c.got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, c.got, c.want)
		}
	}
}
