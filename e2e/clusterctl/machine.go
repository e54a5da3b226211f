// Machine: what nodes change for the whole machine. The first cluster with nodes notes the values, the last one
// restores them.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	machineLock = "/run/lock/berth-e2e"
	machineFile = "/run/berth-e2e.json"
	// The kubelet's registration socket for device plugins; its place cannot be configured.
	devicePlugins = "/var/lib/kubelet/device-plugins"
)

// The kubelet sets the first four, the bridge plugin the last one.
var changedSettings = []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"net/ipv4/ip_forward"}

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
		return nil
	}
	values := map[string]string{}
	for _, setting := range changedSettings {
		if text, err := os.ReadFile("/proc/sys/" + setting); err == nil {
			values[setting] = strings.TrimSpace(string(text))
		}
	}
	text, err := json.Marshal(values)
	if err != nil {
		return err
	}
	return writeFileAtomically(machineFile, text, 0o600)
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
	values := map[string]string{}
	if err := json.Unmarshal(text, &values); err != nil {
		return fmt.Errorf("%s: %w", machineFile, err)
	}
	var problems []error
	for setting, value := range values {
		problems = append(problems, os.WriteFile("/proc/sys/"+setting, []byte(value), 0))
	}
	removeDeadSocket(filepath.Join(devicePlugins, "kubelet.sock"))
	// Each succeeds only if the folder is empty.
	for _, folder := range []string{devicePlugins, filepath.Dir(devicePlugins), legacyLogs, cniResultsCache,
		filepath.Dir(cniResultsCache), "/run/containerd/s", "/run/containerd"} {
		_ = os.Remove(folder)
	}
	return errors.Join(append(problems, os.Remove(machineFile))...)
}

// removeDeadSocket leaves a socket alone that somebody serves, such as a real kubelet of this machine.
func removeDeadSocket(path string) {
	connection, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		connection.Close()
		return
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		_ = os.Remove(path)
	}
}
