// Layout: where everything of one cluster lives, derived from its folder alone.
//
// Names that share a space with the rest of the machine (links, network namespaces) carry six hex
// digits of the folder's path. So several clusters live side by side, and `down` finds what is left of one even when
// its records are lost.
package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
)

const (
	// Processes of a cluster carry this variable with the cluster's folder as value: it proves in /proc/PID/environ
	// that a process belongs to this cluster, whatever became of the records.
	markerVariable = "BERTH_E2E_CLUSTER"
	// Sockets below the folder must fit into 107 bytes (sun_path); the longest is the kubelet's, 47 bytes.
	folderBytesMax = 60
	nodesMax       = 3
)

// Layout is a value; make it with newLayout.
type Layout struct {
	Dir string // absolute, without symbolic links
	Tag string // six hex digits of Dir
}

// newLayout resolves dir, which need not exist yet.
func newLayout(dir string) (Layout, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return Layout{}, err
	}
	if resolved, err := filepath.EvalSymlinks(absolute); err == nil {
		absolute = resolved
	} else if parent, err := filepath.EvalSymlinks(filepath.Dir(absolute)); err == nil {
		absolute = filepath.Join(parent, filepath.Base(absolute))
	}
	if absolute == "/" {
		return Layout{}, fmt.Errorf("--dir / cannot be a cluster's folder: name an empty one")
	}
	sum := sha256.Sum256([]byte(absolute))
	return Layout{Dir: absolute, Tag: fmt.Sprintf("%x", sum[:3])}, nil
}

func (l Layout) path(elements ...string) string {
	return filepath.Join(append([]string{l.Dir}, elements...)...)
}

func (l Layout) recordFile() string      { return l.path("cluster.json") }
func (l Layout) lockFile() string        { return l.path(".lock") }
func (l Layout) adminKubeconfig() string { return l.path("admin.kubeconfig") }
func (l Layout) auditLog() string        { return l.path("audit.log") }
func (l Layout) binDir() string          { return l.path("bin") }
func (l Layout) cniBinDir() string       { return l.path("cni-bin") }
func (l Layout) pki(name string) string  { return l.path("pki", name) }
func (l Layout) log(name string) string  { return l.path("logs", name+".log") }

// controlSocket is relative: the supervisor and its callers work in Dir, so its length does not depend on Dir's.
const controlSocket = "supervisor.sock"

// These and the names of a node's links and namespace are the only ones outside Dir. Link names have at most 15 bytes.
func (l Layout) linkBridge() string { return "bt" + l.Tag }

// ownFiles are the entries of Dir that `up` makes and `down` removes; logs and audit.log stay for the reader.
func (l Layout) ownFiles() []string {
	names := []string{"cluster.json", "admin.kubeconfig", "controller-manager.kubeconfig", "scheduler.kubeconfig",
		"audit-policy.yaml", "bin", "cni-bin", "pki",
		"etcd", "image", "volume-plugins",
		controlSocket, "cluster.json.new"}
	for index := 1; index <= nodesMax; index++ {
		names = append(names, l.node(index).Name)
	}
	return names
}

// NodeLayout is one node's part; everything but link and namespace names lies in Home.
type NodeLayout struct {
	Index int // from 1
	Name  string
	Home  string
	tag   string
}

func (l Layout) node(index int) NodeLayout {
	name := fmt.Sprintf("n%d", index)
	return NodeLayout{Index: index, Name: name, Home: l.path(name), tag: l.Tag}
}

func (n NodeLayout) path(name string) string  { return filepath.Join(n.Home, name) }
func (n NodeLayout) containerdSocket() string { return n.path("containerd.sock") }
func (n NodeLayout) cniConfDir() string       { return n.path("cni-conf") }
func (n NodeLayout) cniBinDir() string        { return n.path("cni-bin") }
func (n NodeLayout) kubeconfig() string       { return n.path("kubelet.kubeconfig") }
func (n NodeLayout) hostLink() string         { return fmt.Sprintf("bt%s%s", n.tag, n.Name) }
func (n NodeLayout) podBridge() string        { return fmt.Sprintf("bp%s%s", n.tag, n.Name) }
func (n NodeLayout) namespace() string        { return fmt.Sprintf("berth-%s-%s", n.tag, n.Name) }
func (n NodeLayout) namespacePath() string    { return "/run/netns/" + n.namespace() }

// exists reports whether a file, folder or link is there.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
