// Nodes: containerd and kubelet with the settings that let several live on one machine and in a machine that is itself
// a container. The first node of one is the machine; of several each has its network namespace.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Node is a NodeLayout with its cluster.
type Node struct {
	NodeLayout
	cluster ControlPlane
	nodes   int
}

// prepared is the outcome of what a node can do before the API server answers.
type prepared struct {
	node Node
	err  error
}

// prepareNodes starts containerd on all nodes at once, while the control plane starts.
func (s *Supervisor) prepareNodes(ctx context.Context, authority *Authority) <-chan prepared {
	results := make(chan prepared, s.options.nodes)
	for index := 1; index <= s.options.nodes; index++ {
		node := Node{NodeLayout: s.layout.node(index), cluster: s.control, nodes: s.options.nodes}
		go func() { results <- prepared{node, s.prepareNode(ctx, node, authority)} }()
	}
	return results
}

func (s *Supervisor) prepareNode(ctx context.Context, node Node, authority *Authority) error {
	if err := node.writeFiles(authority, s.options.cniConf); err != nil {
		return err
	}
	if node.nodes > 1 {
		if err := connectNode(s.layout, s.control.network, node.NodeLayout, node.nodes); err != nil {
			return err
		}
	}
	if node.nodes > 1 {
		if err := translateService(s.layout, s.control.network, node.namespacePath()); err != nil {
			return err
		}
	}
	if node.Index == 1 {
		if err := translateService(s.layout, s.control.network, ""); err != nil {
			return err
		}
	}
	containerd, err := s.startProgram(node.containerd())
	if err != nil {
		return err
	}
	return await(ctx, "containerd of "+node.Name, startTimeout, containerd, func(ctx context.Context) error {
		return exec.CommandContext(ctx, s.layout.binDir()+"/ctr", "--address="+node.containerdSocket(), "--namespace=k8s.io",
			"images", "import", s.layout.path("image", "pause.tar")).Run()
	})
}

// startNodes starts the kubelets as their nodes become prepared, then waits for all to be ready.
func (s *Supervisor) startNodes(ctx context.Context, results <-chan prepared) error {
	ready := make(chan error, s.options.nodes)
	for range s.options.nodes {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case result := <-results:
			if result.err != nil {
				return fmt.Errorf("node %s: %w", result.node.Name, result.err)
			}
			kubelet, err := s.startProgram(result.node.kubelet())
			if err != nil {
				return err
			}
			go func() { ready <- s.awaitNode(ctx, result.node, kubelet) }()
		}
	}
	for range s.options.nodes {
		if err := <-ready; err != nil {
			return err
		}
	}
	return nil
}

// awaitNode waits until the scheduler may place pods on the node.
func (s *Supervisor) awaitNode(ctx context.Context, node Node, kubelet *Child) error {
	err := await(ctx, "node "+node.Name, nodeTimeout, kubelet, func(ctx context.Context) error {
		var object struct {
			Spec struct {
				Taints []struct{ Key string }
			}
			Status struct {
				Conditions []struct{ Type, Status, Message string }
			}
		}
		if err := s.client.get(ctx, "/api/v1/nodes/"+node.Name, &object); err != nil {
			return err
		}
		for _, taint := range object.Spec.Taints {
			err := fmt.Errorf("it has the taint %s", taint.Key)
			for _, condition := range object.Status.Conditions {
				if condition.Type == "Ready" && condition.Status != "True" {
					err = errors.New(condition.Message)
				}
			}
			return err
		}
		for _, condition := range object.Status.Conditions {
			if condition.Type == "Ready" && condition.Status == "True" {
				return nil
			}
		}
		return errors.New("it has no condition Ready yet")
	})
	if err == nil {
		s.step("node %s ready", node.Name)
	}
	return err
}

func (n Node) writeFiles(authority *Authority, cniConf string) error {
	for _, folder := range []string{"cni-conf", "kubelet", "pod-logs", "root", "state", "volume-plugins"} {
		if err := os.MkdirAll(n.path(folder), 0o755); err != nil {
			return err
		}
	}
	address := n.cluster.network.nodeAddress(n.NodeLayout, n.nodes)
	server, err := authority.sign(Subject{User: "kubelet-" + n.Name, Hosts: []string{n.Name, address}})
	if err != nil {
		return err
	}
	user := "system:node:" + n.Name
	client, err := authority.sign(Subject{User: user, Groups: []string{"system:nodes"}})
	if err != nil {
		return err
	}
	network, err := n.networkConfiguration(cniConf)
	if err != nil {
		return err
	}
	kubeconfig := kubeletKubeconfig(n.cluster.server(), authority.Cert, user, n.path("kubelet-client.pem"))
	snapshotter := "overlayfs"
	if !overlayWorks(n.path("overlay-probe")) {
		snapshotter = "native"
	}
	files := []struct {
		path, content string
		mode          os.FileMode
	}{
		{n.path("kubelet-server.pem"), string(server.Cert) + string(server.Key), 0o600},
		{n.path("kubelet-client.pem"), string(client.Cert) + string(client.Key), 0o600},
		{n.kubeconfig(), string(kubeconfig), 0o600},
		{n.path("containerd.toml"), n.containerdConfiguration(snapshotter), 0o644},
		{n.path("kubelet.yaml"), n.kubeletConfiguration(address), 0o644},
		{n.cniConfDir() + "/10-network.conflist", network, 0o644},
	}
	for _, file := range files {
		if err := os.WriteFile(file.path, []byte(file.content), file.mode); err != nil {
			return err
		}
	}
	return nil
}

// overlayWorks is false where the folder itself lies on an overlay, as in many containers.
func overlayWorks(folder string) bool {
	defer os.RemoveAll(folder)
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if os.MkdirAll(folder+"/"+name, 0o755) != nil {
			return false
		}
	}
	options := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", folder)
	if syscall.Mount("overlay", folder+"/merged", "overlay", 0, options) != nil {
		return false
	}
	return syscall.Unmount(folder+"/merged", 0) == nil
}

const defaultNetwork = `{
  "cniVersion": "1.1.0",
  "name": "berth-e2e",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "@BRIDGE@",
      "isDefaultGateway": true,
      "hairpinMode": true,
      "ipam": {"type": "host-local", "dataDir": "@STATE_DIR@", "ranges": [[{"subnet": "@POD_CIDR@"}]]}
    }
  ]
}
`

func (n Node) networkConfiguration(file string) (string, error) {
	text := defaultNetwork
	if file != "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		text = string(content)
	}
	return strings.NewReplacer("@NODE@", n.Name, "@BRIDGE@", n.podBridge(), "@KUBECONFIG@", n.kubeconfig(),
		"@POD_CIDR@", n.cluster.network.podCIDR(n.NodeLayout), "@STATE_DIR@", n.path("host-local")).Replace(text), nil
}

func (n Node) namespaceToEnter() string { return namespacePath(n.NodeLayout, n.nodes) }

func (n Node) containerd() Program {
	return Program{Name: "containerd-" + n.Name, Namespace: n.namespaceToEnter(),
		Arguments: []string{n.cluster.layout.binDir() + "/containerd", "--config=" + n.path("containerd.toml")}}
}

func (n Node) kubelet() Program {
	return Program{Name: "kubelet-" + n.Name, Namespace: n.namespaceToEnter(),
		Arguments: []string{n.cluster.layout.binDir() + "/kubelet", "--config=" + n.path("kubelet.yaml"),
			"--kubeconfig=" + n.kubeconfig(), "--root-dir=" + n.path("kubelet"), "--hostname-override=" + n.Name,
			"--node-ip=" + n.cluster.network.nodeAddress(n.NodeLayout, n.nodes)}}
}

// containerdConfiguration keeps containerd inside the node's folder; what it would put into /run, /opt and /etc, too.
func (n Node) containerdConfiguration(snapshotter string) string {
	q := quoteJSON
	return `version = 3
root = ` + q(n.path("root")) + `
state = ` + q(n.path("state")) + `
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri",
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]

[grpc]
address = ` + q(n.containerdSocket()) + `

[ttrpc]
address = ` + q(n.containerdSocket()+".ttrpc") + `

[plugins."io.containerd.cri.v1.images"]
snapshotter = ` + q(snapshotter) + `

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = ` + q(testImage) + `

[plugins."io.containerd.cri.v1.images".registry]
config_path = ` + q(n.path("registries")) + `

[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
disable_apparmor = true
cdi_spec_dirs = []

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = [` + q(n.cluster.layout.cniBinDir()) + `]
conf_dir = ` + q(n.cniConfDir()) + `
max_conf_num = 1

[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "runc"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
Root = ` + q(n.path("runc")) + `

[plugins."io.containerd.grpc.v1.cri"]
stream_server_address = "127.0.0.1"
stream_server_port = "0"
`
}

// kubeletConfiguration: cgroup v1 machines are welcome; the kubelet manages no cgroups of its own, and evicts nothing
// for a full disk, as the disk is the developer's.
func (n Node) kubeletConfiguration(address string) string {
	port, err := freePort(address)
	if err != nil || n.nodes > 1 {
		port = 10250 // a namespace of its own has no other
	}
	q := quoteJSON
	return `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: ` + q(address) + `
port: ` + fmt.Sprint(port) + `
healthzPort: 0
readOnlyPort: 0
tlsCertFile: ` + q(n.path("kubelet-server.pem")) + `
tlsPrivateKeyFile: ` + q(n.path("kubelet-server.pem")) + `
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: ` + q(n.cluster.layout.pki("ca.crt")) + `}
authorization: {mode: Webhook}
containerRuntimeEndpoint: ` + q("unix://"+n.containerdSocket()) + `
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
enableControllerAttachDetach: false
localStorageCapacityIsolation: false
makeIPTablesUtilChains: false
oomScoreAdj: 0
maxPods: 250
registerNode: true
serializeImagePulls: false
resolvConf: ""
clusterDomain: cluster.local
clusterDNS: [` + q(strings.TrimSuffix(n.cluster.network.serviceAddress(), ".1")+".10") + `]
podLogsDir: ` + q(n.path("pod-logs")) + `
volumePluginDir: ` + q(n.path("volume-plugins")) + `
evictionHard:
  memory.available: 1Mi
  nodefs.available: 0%
  nodefs.inodesFree: 0%
  imagefs.available: 0%
  imagefs.inodesFree: 0%
imageGCHighThresholdPercent: 100
`
}
