// Sweep: removes what is left of a cluster, whatever its end was. Every step can be repeated, and none touches anything
// that does not carry the cluster's mark: processes by environment or root folder, mounts by folder, cgroups by
// container, all else by name.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"
)

const (
	sweepTimeout = 20 * time.Second
	downTimeout  = 60 * time.Second
	sweepPause   = 20 * time.Millisecond
)

// down ends the cluster of a folder; without one it only makes sure that nothing is left.
func down(l Layout) error {
	record, err := readRecord(l)
	if err != nil && !errors.Is(err, errNoCluster) {
		fmt.Fprintln(os.Stderr, "e2e/cluster: ignoring unreadable records:", err)
	}
	if record.Existing {
		return os.Remove(l.recordFile())
	}
	if record.Nodes > 0 && os.Geteuid() != 0 {
		return errors.New("taking nodes down needs root")
	}
	if record.Supervisor.alive() {
		if err := syscall.Kill(record.Supervisor.Pid, syscall.SIGTERM); err != nil {
			return fmt.Errorf("end the supervisor, pid %d: %w", record.Supervisor.Pid, err)
		}
		for deadline := time.Now().Add(downTimeout); record.Supervisor.alive() && time.Now().Before(deadline); {
			time.Sleep(sweepPause)
		}
	}
	if !exists(l.Dir) {
		return sweep(l)
	}
	lock, err := lockFolder(l)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := sweep(l); err != nil {
		return err
	}
	return os.Remove(l.lockFile())
}

// sweep needs root only where root made something.
func sweep(l Layout) error {
	identifiers := containersOnDisk(l)
	if err := endLeftovers(l, identifiers); err != nil {
		return err
	}
	if err := unmountBelow(l.Dir); err != nil {
		return err
	}
	problems := []error{removeNetwork(l), removeCgroups(identifiers), restoreMachine()}
	for _, name := range l.ownFiles() {
		problems = append(problems, os.RemoveAll(l.path(name)))
	}
	return errors.Join(problems...)
}

// endLeftovers kills until nothing is left: a shim may just be starting its next process.
func endLeftovers(l Layout, identifiers map[string]bool) error {
	for deadline := time.Now().Add(sweepTimeout); ; time.Sleep(sweepPause) {
		pids := leftovers(l, identifiers)
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v cannot be killed", pids)
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// unmountBelow unmounts the deepest first.
func unmountBelow(dir string) error {
	for round := 0; ; round++ {
		points := mountsBelow(dir)
		if len(points) == 0 {
			return nil
		}
		if round == 3 {
			return fmt.Errorf("still mounted: %s", strings.Join(points, " "))
		}
		sort.Sort(sort.Reverse(sort.StringSlice(points)))
		for _, point := range points {
			_ = syscall.Unmount(point, syscall.MNT_DETACH)
		}
	}
}

func mountsBelow(dir string) []string {
	var points []string
	for _, mount := range readMounts("/proc/self/mountinfo") {
		if strings.HasPrefix(mount.point, dir+"/") {
			points = append(points, mount.point)
		}
	}
	return points
}

// removeCgroups works for one hierarchy (v2) and for several (v1). containerd names a container's group after it. A
// group stays busy until its killed processes are gone for good, hence the repetition.
func removeCgroups(identifiers map[string]bool) error {
	parents, _ := filepath.Glob("/sys/fs/cgroup/*/k8s.io")
	parents = append(parents, "/sys/fs/cgroup/k8s.io")
	for deadline := time.Now().Add(sweepTimeout); ; time.Sleep(sweepPause) {
		var problem error
		for _, parent := range parents {
			for identifier := range identifiers {
				if err := os.Remove(filepath.Join(parent, identifier)); err != nil && !errors.Is(err, fs.ErrNotExist) {
					problem = err
				}
			}
		}
		if problem == nil || time.Now().After(deadline) {
			for _, parent := range parents {
				_ = os.Remove(parent) // succeeds for the last cluster only
			}
			return problem
		}
	}
}
