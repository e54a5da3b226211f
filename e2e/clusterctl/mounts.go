// Mounts: a node's own view of the machine's files. What is at a fixed place on a host (the CNI plugins, what berth, the
// kubelet and containerd keep) is each node's own, as on hosts of their own, and the machine sees nothing of it.
//
// A process of the cluster holds the view while containerd and the kubelet come and go. It ends with the last process in
// it, and with it all mounts.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
)

// ownPlaces are the folders of a host that each node has for itself, and where they lie in its home.
var ownPlaces = []struct{ place, home string }{
	{"/etc/cni/net.d", "cni-conf"},
	{"/opt/cni/bin", "cni-bin"},
	{"/run/berth", "run/berth"},
	{"/run/containerd", "run/containerd"},
	{"/var/lib/berth", "lib/berth"},
	{"/var/lib/cni", "lib/cni"},
	{"/var/lib/kubelet", "kubelet"},
	{"/var/log/containers", "container-logs"},
}

// startMounts returns the mount namespace of a node, once everything is in place there.
func (s *Supervisor) startMounts(ctx context.Context, node NodeLayout) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	holder, err := s.startProgram(Program{Name: "mounts-" + node.Name, OwnMounts: true,
		Arguments: []string{self, "mounts", "--dir=" + s.layout.Dir, node.Name}})
	if err != nil {
		return "", err
	}
	proc := fmt.Sprintf("/proc/%d", holder.Pid)
	err = await(ctx, "mounts of "+node.Name, startTimeout, holder, func(context.Context) error {
		mounts := readMounts(proc + "/mountinfo")
		for _, own := range ownPlaces {
			if !slices.ContainsFunc(mounts, func(m mountEntry) bool { return m.point == own.place }) {
				return fmt.Errorf("%s is not mounted yet", own.place)
			}
		}
		return nil
	})
	return proc + "/ns/mnt", err
}

// holdMounts runs in a mount namespace of its own, in which nothing is shared with the machine's, until it is ended.
func holdMounts(home string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	// What the kubelet mounts for a pod must reach its containers, which have mount namespaces of their own.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share mounts with containers: %w", err)
	}
	for _, own := range ownPlaces {
		if err := syscall.Mount(filepath.Join(home, own.home), own.place, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s: %w", own.place, err)
		}
	}
	<-ctx.Done()
	return nil
}

// missingFolders are those of ownPlaces, with their parents, that the machine does not have; parents first.
func missingFolders() []string {
	var missing []string
	for _, own := range ownPlaces {
		var chain []string
		for folder := own.place; !exists(folder); folder = filepath.Dir(folder) {
			chain = append(chain, folder)
		}
		slices.Reverse(chain)
		for _, folder := range chain {
			if !slices.Contains(missing, folder) {
				missing = append(missing, folder)
			}
		}
	}
	return missing
}

func makeOwnPlaces() error {
	for _, own := range ownPlaces {
		if err := os.MkdirAll(own.place, 0o755); err != nil {
			return err
		}
	}
	return nil
}
