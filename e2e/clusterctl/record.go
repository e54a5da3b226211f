// Record: what a running cluster is made of, kept as DIR/cluster.json for `env`, `down` and the other commands.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Process identifies a process for good: a pid alone may belong to somebody else by now.
type Process struct {
	Pid int `json:"pid"`
	// StartTicks is field 22 of /proc/PID/stat, clock ticks since boot.
	StartTicks uint64 `json:"startTicks"`
}

// Record is written by the supervisor only, after every change.
type Record struct {
	// Existing: BERTH_USE_EXISTING_CLUSTER=1; then only Kubeconfig and KubectlDir are set.
	Existing   bool               `json:"existing,omitempty"`
	Kubeconfig string             `json:"kubeconfig"`
	KubectlDir string             `json:"kubectlDir"`
	Server     string             `json:"server,omitempty"`
	Nodes      int                `json:"nodes"`
	Audit      bool               `json:"audit,omitempty"`
	Network    Network            `json:"network"`
	Supervisor Process            `json:"supervisor"`
	Processes  map[string]Process `json:"processes,omitempty"` // running ones by name
	// Ready turns true once `up` has succeeded.
	Ready bool `json:"ready"`
}

var errNoCluster = errors.New("no cluster")

// readRecord returns errNoCluster if there is none.
func readRecord(l Layout) (Record, error) {
	var record Record
	text, err := os.ReadFile(l.recordFile())
	if errors.Is(err, fs.ErrNotExist) {
		return record, errNoCluster
	}
	if err != nil {
		return record, err
	}
	if err := json.Unmarshal(text, &record); err != nil {
		return record, fmt.Errorf("%s: %w", l.recordFile(), err)
	}
	return record, nil
}

func writeRecord(l Layout, record Record) error {
	text, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}
	return writeFileAtomically(l.recordFile(), append(text, '\n'), 0o644)
}

// writeFileAtomically lets a reader see the old content or the new one, never a half.
func writeFileAtomically(path string, content []byte, mode fs.FileMode) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, content, mode); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
