// Leftovers: which processes belong to a cluster, told from the processes themselves.
//
// The programs carry markerVariable in their environment, and so do shims and plugins, which inherit it. Containers
// have an environment of their own: they are told by their root filesystem, which lies in the cluster's folder, and by
// their cgroup, which is called like a container in containerd's folders.
package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// containerCgroup is what containerd makes when the kubelet names no parent, as with cgroupsPerQOS off.
var containerCgroup = regexp.MustCompile(`/k8s\.io/([0-9a-f]{64})`)

// leftovers are the living processes of this cluster, without the caller. Containers they are found in are added to
// the identifiers.
func leftovers(l Layout, identifiers map[string]bool) []int {
	marker := []byte(markerVariable + "=" + l.Dir)
	folder := locate("/proc/self/mountinfo", l.Dir)
	var pids []int
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range processes {
		pid, err := strconv.Atoi(filepath.Base(proc))
		if err != nil || pid == os.Getpid() {
			continue
		}
		if _, err := startTicks(pid); err != nil {
			continue // ended meanwhile, or a zombie, which only its parent can remove
		}
		container := containerOf(proc)
		inside := container != "" && (identifiers[container] || rootLiesIn(filepath.Join(proc, "mountinfo"), folder))
		if inside {
			identifiers[container] = true
		}
		if inside || hasVariable(proc, marker) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// containersOnDisk are the identifiers of the containers that containerd knows or knew.
func containersOnDisk(l Layout) map[string]bool {
	identifiers := map[string]bool{}
	bundles, _ := filepath.Glob(l.path("n[1-9]", "state", "io.containerd.runtime.v2.task", "k8s.io", "*"))
	for _, bundle := range bundles {
		identifiers[filepath.Base(bundle)] = true
	}
	return identifiers
}

func hasVariable(proc string, marker []byte) bool {
	environ, err := os.ReadFile(filepath.Join(proc, "environ"))
	if err != nil {
		return false
	}
	for _, variable := range bytes.Split(environ, []byte{0}) {
		if bytes.Equal(variable, marker) {
			return true
		}
	}
	return false
}

// containerOf is "" for a process outside of containers.
func containerOf(proc string) string {
	text, _ := os.ReadFile(filepath.Join(proc, "cgroup"))
	if match := containerCgroup.FindSubmatch(text); match != nil {
		return string(match[1])
	}
	return ""
}

// folderPlace says where a folder is, independent of mount namespaces: the device, and the path on that device.
type folderPlace struct{ path, device, pathOnDevice string }

// locate finds the mount that the folder lies on: the longest mount point that is a parent, the last one if several.
func locate(mountinfo, folder string) folderPlace {
	place := folderPlace{path: folder}
	longest := -1
	for _, mount := range readMounts(mountinfo) {
		prefix := strings.TrimSuffix(mount.point, "/") + "/"
		if strings.HasPrefix(folder+"/", prefix) && len(prefix) >= longest {
			longest = len(prefix)
			place.device = mount.device
			place.pathOnDevice = filepath.Join(mount.root, strings.TrimPrefix(folder+"/", prefix))
		}
	}
	return place
}

// rootLiesIn looks at what is mounted on / in a process's view: an overlay of layers in the folder, or with
// containerd's native snapshotter a part of the folder's own filesystem.
func rootLiesIn(mountinfo string, folder folderPlace) bool {
	for _, mount := range readMounts(mountinfo) {
		if mount.point != "/" {
			continue
		}
		if strings.Contains(mount.options, "lowerdir="+folder.path+"/n") ||
			(mount.device == folder.device && strings.HasPrefix(mount.root, folder.pathOnDevice+"/n")) {
			return true
		}
	}
	return false
}

// mountEntry is a line of mountinfo; see proc_pid_mountinfo(5).
type mountEntry struct{ device, root, point, options string }

var unescapeMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// readMounts returns nothing for a process that has ended.
func readMounts(mountinfo string) []mountEntry {
	text, _ := os.ReadFile(mountinfo)
	var mounts []mountEntry
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 6 {
			continue
		}
		mounts = append(mounts, mountEntry{device: fields[2], root: unescapeMount.Replace(fields[3]),
			point: unescapeMount.Replace(fields[4]), options: fields[len(fields)-1]})
	}
	return mounts
}
