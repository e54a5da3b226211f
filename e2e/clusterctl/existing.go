// An existing cluster instead of one of ours: only when asked for by name, as an exported KUBECONFIG may be production.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// useExisting records the current kubeconfig after a call that proves it works.
func useExisting(options Options) error {
	l := options.layout
	if err := checkFolder(l); err != nil {
		return err
	}
	if options.nodes > 0 {
		fmt.Fprintln(os.Stderr, "e2e/cluster: BERTH_USE_EXISTING_CLUSTER=1: --nodes is ignored, the nodes are what they are")
	}
	kubeconfig := os.Getenv("KUBECONFIG")
	if kubeconfig == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return err
		}
		kubeconfig = filepath.Join(home, ".kube", "config")
	}
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		binaries, err := ensureBinaries(Options{layout: l}, false)
		if err != nil {
			return err
		}
		if err := binaries.install(l); err != nil {
			return err
		}
		kubectl = filepath.Join(l.binDir(), "kubectl")
	}
	cmd := exec.Command(kubectl, "version", "--request-timeout=10s")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("BERTH_USE_EXISTING_CLUSTER=1, but the cluster of KUBECONFIG=%s does not answer: %w\n%s",
			kubeconfig, err, text)
	}
	fmt.Fprintf(os.Stderr, "using the existing cluster of %s\n", kubeconfig)
	return writeRecord(l, Record{Existing: true, Kubeconfig: kubeconfig, KubectlDir: filepath.Dir(kubectl)})
}
