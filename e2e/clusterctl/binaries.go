// Binaries: which file each program of a cluster is, from KUBEBUILDER_ASSETS or from our own builds.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// What a folder made by controller-runtime's setup-envtest contains.
var assetPrograms = []string{"etcd", "kube-apiserver", "kubectl"}

var (
	controlPrograms = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl",
		"etcdutl"}
	runtimePrograms = []string{"containerd", "containerd-shim-runc-v2", "ctr", "cnitool"}
	networkPlugins  = []string{"bridge", "ptp", "host-local", "loopback"}
)

// Tools from Debian that nodes need, with their package.
var nodeTools = []struct{ program, debianPackage string }{
	{"runc", "runc"}, {"ip", "iproute2"}, {"nft", "nftables"}, {"nsenter", "util-linux"}, {"mount", "mount"},
}

// Binaries maps a program to its file.
type Binaries struct {
	programs map[string]string
	plugins  string // folder of the network plugins, "" for none
	pause    string // file, "" without nodes
}

// checkMachine says everything that is missing at once.
func checkMachine(options Options) error {
	if options.nodes == 0 {
		return nil
	}
	var problems []error
	if os.Geteuid() != 0 {
		problems = append(problems, errors.New("nodes need root (namespaces, mounts, cgroups); --nodes 0 does not"))
	}
	for _, tool := range nodeTools {
		if _, err := exec.LookPath(tool.program); err != nil {
			problems = append(problems,
				fmt.Errorf("nodes need the program %s: apt-get install %s", tool.program, tool.debianPackage))
		}
	}
	for _, file := range []string{"/etc/hosts", "/etc/resolv.conf"} {
		if _, err := os.Stat(file); err != nil {
			problems = append(problems, fmt.Errorf("nodes need %s, which containerd copies into pods; it may be empty", file))
		}
	}
	if entries, _ := os.ReadDir("/sys/fs/cgroup"); len(entries) == 0 {
		problems = append(problems, errors.New("nodes need cgroups, but none are mounted on /sys/fs/cgroup"))
	}
	if len(options.layout.Dir) > folderBytesMax {
		problems = append(problems, fmt.Errorf("--dir %s is too long for nodes: at most %d bytes, as sockets in it must fit "+
			"into the kernel's 107", options.layout.Dir, folderBytesMax))
	}
	return errors.Join(problems...)
}

// ensureBinaries builds what is missing for these options, or everything.
func ensureBinaries(options Options, everything bool) (Binaries, error) {
	binaries := Binaries{programs: map[string]string{}}
	source, err := sourceFolder()
	if err != nil {
		return binaries, err
	}
	wanted := slices.Clone(controlPrograms)
	if options.nodes > 0 || everything {
		wanted = append(wanted, "kubelet")
	}
	if wanted, err = binaries.useAssets(wanted); err != nil {
		return binaries, err
	}
	if len(wanted) > 0 {
		build, err := kubernetesBuild(source)
		if err != nil {
			return binaries, err
		}
		folder, err := build.ensure()
		if err != nil {
			return binaries, err
		}
		for _, program := range wanted {
			binaries.programs[program] = filepath.Join(folder, "kubernetes")
		}
	}
	if options.nodes > 0 || everything {
		return binaries, binaries.ensureNode(source)
	}
	if options.cniPlugins {
		return binaries, binaries.ensurePlugins(source)
	}
	return binaries, nil
}

// useAssets takes what KUBEBUILDER_ASSETS has and returns what it lacks.
func (b *Binaries) useAssets(wanted []string) ([]string, error) {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		return wanted, nil
	}
	var missing []string
	for _, program := range wanted {
		file := filepath.Join(assets, program)
		if info, err := os.Stat(file); err == nil && info.Mode()&0o111 != 0 {
			b.programs[program] = file
		} else if slices.Contains(assetPrograms, program) {
			return nil, fmt.Errorf("KUBEBUILDER_ASSETS=%s has no executable %s: it must hold %s; unset it to build them",
				assets, program, strings.Join(assetPrograms, ", "))
		} else {
			missing = append(missing, program)
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(os.Stderr, "KUBEBUILDER_ASSETS=%s lacks %s: these are our own build\n",
			assets, strings.Join(missing, ", "))
	}
	return missing, nil
}

func (b *Binaries) ensurePlugins(source string) error {
	build, err := runtimeBuild(source)
	if err != nil {
		return err
	}
	b.plugins, err = build.ensure()
	return err
}

func (b *Binaries) ensureNode(source string) error {
	if err := b.ensurePlugins(source); err != nil {
		return err
	}
	for _, program := range runtimePrograms {
		b.programs[program] = filepath.Join(b.plugins, program)
	}
	build, err := pauseBuild(source)
	if err != nil {
		return err
	}
	folder, err := build.ensure()
	b.pause = filepath.Join(folder, "pause")
	return err
}

// install puts links into DIR/bin and copies of the plugins into DIR/cni-bin, which others write to.
func (b Binaries) install(l Layout) error {
	if err := os.MkdirAll(l.binDir(), 0o755); err != nil {
		return err
	}
	for program, file := range b.programs {
		link := filepath.Join(l.binDir(), program)
		if err := os.RemoveAll(link); err != nil {
			return err
		}
		if err := os.Symlink(file, link); err != nil {
			return err
		}
	}
	if b.plugins == "" {
		return nil
	}
	if err := os.MkdirAll(l.cniBinDir(), 0o755); err != nil {
		return err
	}
	for _, plugin := range networkPlugins {
		if err := copyFile(filepath.Join(b.plugins, plugin), filepath.Join(l.cniBinDir(), plugin)); err != nil {
			return err
		}
	}
	if b.pause == "" {
		return nil
	}
	if err := writePauseImage(b.pause, l.path("image", "pause.tar")); err != nil {
		return err
	}
	made, err := writeUserImage(busyboxProgram, l.path("image", "busybox.tar"))
	if err == nil && !made {
		fmt.Fprintf(os.Stderr, "pods cannot use %s here: the Debian package busybox-static is missing\n", userImage)
	}
	return err
}
