// Environment: shell lines that tell tests and people where everything of a cluster is.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

func printEnvironment(l Layout) error {
	record, err := readRecord(l)
	if err != nil {
		return explainMissing(l, err)
	}
	if !record.Existing && !record.Supervisor.alive() {
		return fmt.Errorf("the cluster in %s has ended without down: run e2e/cluster down --dir %s", l.Dir, l.Dir)
	}
	var lines strings.Builder
	set := func(name, value string) { fmt.Fprintf(&lines, "export %s=%s\n", name, quoteShell(value)) }
	set("BERTH_E2E_DIR", l.Dir)
	set("KUBECONFIG", record.Kubeconfig)
	fmt.Fprintf(&lines, "export PATH=%s:\"$PATH\"\n", quoteShell(record.KubectlDir))
	if record.Existing {
		set("BERTH_USE_EXISTING_CLUSTER", "1")
		_, err = os.Stdout.WriteString(lines.String())
		return err
	}
	set("BERTH_NODES", strconv.Itoa(record.Nodes))
	set("BERTH_APISERVER_URL", record.Server)
	set("BERTH_APISERVER_PID", pidText(record, "kube-apiserver"))
	set("BERTH_ETCD_PID", pidText(record, "etcd"))
	set("BERTH_ETCD_URL", fmt.Sprintf("https://127.0.0.1:%d", record.Network.Ports.Etcd))
	set("BERTH_CA_FILE", l.pki("ca.crt"))
	if record.Audit {
		set("BERTH_AUDIT_LOG", l.auditLog())
	}
	if _, err := os.Stat(l.cniBinDir()); err == nil {
		set("CNI_BIN_DIR", l.cniBinDir())
	}
	if record.Nodes > 0 {
		first := l.node(1)
		set("CONTAINERD_ADDRESS", first.containerdSocket())
		set("CONTAINERD_NAMESPACE", "k8s.io")
		set("BERTH_TEST_IMAGE", testImage)
		set("BERTH_SERVICE_ADDRESS", record.Network.serviceAddress())
	}
	for index := 1; index <= record.Nodes; index++ {
		node := l.node(index)
		setNode := func(name, value string) { set(fmt.Sprintf("BERTH_NODE%d_%s", index, name), value) }
		setNode("NAME", node.Name)
		setNode("ADDRESS", record.Network.nodeAddress(node))
		setNode("NETNS", node.namespacePath())
		setNode("CNI_CONF_DIR", node.cniConfDir())
		setNode("CNI_BIN_DIR", node.cniBinDir())
		setNode("MOUNTS_PID", pidText(record, "mounts-"+node.Name))
		setNode("KUBECONFIG", node.kubeconfig())
		setNode("CONTAINERD_SOCKET", node.containerdSocket())
		setNode("BRIDGE", node.podBridge())
		setNode("POD_CIDR", record.Network.podCIDR(node))
		setNode("KUBELET_PID", pidText(record, "kubelet-"+node.Name))
		setNode("CONTAINERD_PID", pidText(record, "containerd-"+node.Name))
	}
	_, err = os.Stdout.WriteString(lines.String())
	return err
}

// pidText is empty while the process does not run.
func pidText(record Record, name string) string {
	if process, ok := record.Processes[name]; ok {
		return strconv.Itoa(process.Pid)
	}
	return ""
}
