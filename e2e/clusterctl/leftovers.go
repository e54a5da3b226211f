// Leftovers: which processes belong to a cluster, told from the processes themselves.
//
// The programs carry markerVariable in their environment, and so do shims and plugins, which inherit it. Containers have
// an environment of their own; their root filesystem lies in the cluster's folder, which their mount table shows.
package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// leftovers are the living processes of this cluster, without the caller.
func leftovers(l Layout) []int {
	marker := []byte(markerVariable + "=" + l.Dir)
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
		if hasVariable(proc, marker) || isContainer(proc, l.Dir) {
			pids = append(pids, pid)
		}
	}
	return pids
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

// isContainer looks at what is mounted on / in the process's view: an overlay whose layers lie in dir, or with the
// native snapshotter a part of dir's own filesystem.
func isContainer(proc, dir string) bool {
	text, err := os.ReadFile(filepath.Join(proc, "mountinfo"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 5 || fields[4] != "/" {
			continue
		}
		if strings.Contains(line, "dir="+dir+"/n") || strings.Contains(fields[3]+"/", dir+"/n") {
			return true
		}
	}
	return false
}

var containerCgroup = regexp.MustCompile(`/k8s\.io/([0-9a-f]{64})`)

// containers are the identifiers of all containers of the cluster, from containerd's folders and living processes.
func containers(l Layout) map[string]bool {
	identifiers := map[string]bool{}
	bundles, _ := filepath.Glob(l.path("n[1-9]", "state", "io.containerd.runtime.v2.task", "k8s.io", "*"))
	for _, bundle := range bundles {
		identifiers[filepath.Base(bundle)] = true
	}
	for _, pid := range leftovers(l) {
		text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
		for _, match := range containerCgroup.FindAllSubmatch(text, -1) {
			identifiers[string(match[1])] = true
		}
	}
	return identifiers
}
