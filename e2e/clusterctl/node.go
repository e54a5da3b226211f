// Nodes: containerd and kubelet with the settings that let several live on one machine and in a machine that is itself
// a container. Each has a network (network.go) and mounts (mounts.go) of its own.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Node is a NodeLayout with its cluster.
type Node struct {
	NodeLayout
	cluster ControlPlane
	nodes   int
	mounts  string // path of its mount namespace, once there is one
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
		go func() {
			err := s.prepareNode(ctx, &node, authority)
			results <- prepared{node, err}
		}()
	}
	return results
}

func (s *Supervisor) prepareNode(ctx context.Context, node *Node, authority *Authority) error {
	if err := node.writeFiles(authority, s.options.cniConf); err != nil {
		return err
	}
	if err := connectNode(s.layout, s.control.network, node.NodeLayout, node.nodes); err != nil {
		return err
	}
	if err := translateService(s.control.network, node.namespacePath()); err != nil {
		return err
	}
	var err error
	if node.mounts, err = s.startMounts(ctx, node.NodeLayout); err != nil {
		return err
	}
	containerd, err := s.startProgram(node.containerd())
	if err != nil {
		return err
	}
	load := func(ctx context.Context, image string) error {
		text, err := exec.CommandContext(ctx, s.layout.binDir()+"/ctr", "--address="+node.containerdSocket(),
			"--namespace=k8s.io", "images", "import", image).CombinedOutput()
		if err != nil {
			return fmt.Errorf("load %s: %w: %s", image, err, bytes.TrimSpace(text))
		}
		return nil
	}
	if err := await(ctx, "containerd of "+node.Name, startTimeout, containerd, func(ctx context.Context) error {
		return load(ctx, s.layout.path("image", "pause.tar"))
	}); err != nil {
		return err
	}
	images := s.options.images
	if busybox := s.layout.path("image", "busybox.tar"); exists(busybox) {
		images = append([]string{busybox}, images...)
	}
	for _, image := range images {
		if err := load(ctx, image); err != nil {
			return err
		}
	}
	return nil
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

// A node's role is a label that its kubelet may not set. Every node here has it: none is of another kind than those beside it.
const controlPlaneRole = `{"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}`

// awaitNode waits until the scheduler may place pods on the node, or until only a network is missing for that, if there
// is to be none. The node has its role then.
func (s *Supervisor) awaitNode(ctx context.Context, node Node, kubelet *Child) error {
	lacksNetwork := s.options.cniConf == noNetwork
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
		for _, condition := range object.Status.Conditions {
			switch {
			case condition.Type != "Ready":
			case condition.Status != "True" && lacksNetwork && strings.Contains(condition.Message, "NetworkPluginNotReady"):
				return nil
			case condition.Status != "True":
				return errors.New(condition.Message)
			case len(object.Spec.Taints) > 0:
				return fmt.Errorf("it has the taint %s", object.Spec.Taints[0].Key)
			default:
				return nil
			}
		}
		return errors.New("it has no condition Ready yet")
	})
	if err == nil {
		err = s.client.patch(ctx, "/api/v1/nodes/"+node.Name, controlPlaneRole)
	}
	if err == nil && lacksNetwork {
		s.step("node %s there, without a network", node.Name)
	} else if err == nil {
		s.step("node %s ready", node.Name)
	}
	return err
}

type nodeFile struct {
	path, content string
	mode          os.FileMode
}

func (n Node) writeFiles(authority *Authority, cniConf string) error {
	folders := []string{"pod-logs", "root", "state", "static-pods", "volume-plugins"}
	for _, own := range ownPlaces {
		folders = append(folders, own.home)
	}
	for _, folder := range folders {
		if err := os.MkdirAll(n.path(folder), 0o755); err != nil {
			return err
		}
	}
	for _, plugin := range networkPlugins {
		if err := copyFile(filepath.Join(n.cluster.layout.cniBinDir(), plugin), filepath.Join(n.cniBinDir(), plugin)); err != nil {
			return err
		}
	}
	address := n.cluster.network.nodeAddress(n.NodeLayout)
	server, err := authority.sign(Subject{User: "kubelet-" + n.Name, Hosts: []string{n.Name, address}})
	if err != nil {
		return err
	}
	user := "system:node:" + n.Name
	client, err := authority.sign(Subject{User: user, Groups: []string{"system:nodes"}})
	if err != nil {
		return err
	}
	kubeconfig := kubeletKubeconfig(n.cluster.server(), authority.Cert, user, n.path("kubelet-client.pem"))
	snapshotter := "overlayfs"
	if !overlayWorks(n.path("overlay-probe")) {
		snapshotter = "native"
	}
	files := []nodeFile{
		{n.path("kubelet-server.pem"), string(server.Cert) + string(server.Key), 0o600},
		{n.path("kubelet-client.pem"), string(client.Cert) + string(client.Key), 0o600},
		{n.kubeconfig(), string(kubeconfig), 0o600},
		{n.path("containerd.toml"), n.containerdConfiguration(snapshotter), 0o644},
		{n.path("kubelet.yaml"), n.kubeletConfiguration(address), 0o644},
	}
	if cniConf != noNetwork {
		network, err := n.networkConfiguration(cniConf)
		if err != nil {
			return err
		}
		files = append(files, nodeFile{n.cniConfDir() + "/10-network.conflist", network, 0o644})
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

func (n Node) containerd() Program {
	return Program{Name: "containerd-" + n.Name, Namespace: n.namespacePath(), Mounts: n.mounts,
		Arguments: []string{n.cluster.layout.binDir() + "/containerd", "--config=" + n.path("containerd.toml")}}
}

func (n Node) kubelet() Program {
	return Program{Name: "kubelet-" + n.Name, Namespace: n.namespacePath(), Mounts: n.mounts,
		Arguments: []string{n.cluster.layout.binDir() + "/kubelet", "--config=" + n.path("kubelet.yaml"),
			"--kubeconfig=" + n.kubeconfig(), "--hostname-override=" + n.Name,
			"--node-ip=" + n.cluster.network.nodeAddress(n.NodeLayout)}}
}

// containerdConfiguration keeps containerd inside the node's folder; plugins and their configuration are where every
// host has them, which are the node's own places.
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
	q := quoteJSON
	return `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: ` + q(address) + `
port: 10250
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
staticPodPath: ` + q(n.path("static-pods")) + `
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
