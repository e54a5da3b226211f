// Machine: what nodes change for the whole machine. The first cluster with nodes notes the values, the last one
// restores them.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	machineLock = "/run/lock/berth-e2e"
	machineFile = "/run/berth-e2e.json"
)

// The kubelet sets them.
var changedSettings = []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"}

// machineBefore is what machineFile holds: the machine as it was, and the folders it lacked on which nodes mount theirs.
type machineBefore struct {
	Settings    map[string]string `json:"settings"`
	MadeFolders []string          `json:"madeFolders"`
}

// lockMachine is held for moments only; close the file to unlock.
func lockMachine() (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(machineLock), 0o755); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(machineLock, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// rememberMachine requires the lock. Values that are noted already stay: the current ones may be the kubelet's.
func rememberMachine() error {
	if exists(machineFile) {
		return makeOwnPlaces()
	}
	before := machineBefore{Settings: map[string]string{}, MadeFolders: missingFolders()}
	for _, setting := range changedSettings {
		if text, err := os.ReadFile("/proc/sys/" + setting); err == nil {
			before.Settings[setting] = strings.TrimSpace(string(text))
		}
	}
	text, err := json.Marshal(before)
	if err != nil {
		return err
	}
	if err := writeFileAtomically(machineFile, text, 0o600); err != nil {
		return err
	}
	return makeOwnPlaces()
}

// restoreMachine does nothing while another cluster has nodes.
func restoreMachine() error {
	if !exists(machineFile) || os.Geteuid() != 0 {
		return nil
	}
	lock, err := lockMachine()
	if err != nil {
		return err
	}
	defer lock.Close()
	if bridges, _ := filepath.Glob("/sys/class/net/bt[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]"); len(bridges) > 0 {
		return nil
	}
	text, err := os.ReadFile(machineFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var before machineBefore
	if err := json.Unmarshal(text, &before); err != nil {
		return fmt.Errorf("%s: %w", machineFile, err)
	}
	var problems []error
	for setting, value := range before.Settings {
		problems = append(problems, os.WriteFile("/proc/sys/"+setting, []byte(value), 0))
	}
	slices.Reverse(before.MadeFolders)
	for _, folder := range before.MadeFolders {
		_ = os.Remove(folder) // fails if somebody else has put something there meanwhile
	}
	return errors.Join(append(problems, os.Remove(machineFile))...)
}
