// Build: binaries from Go modules, kept outside the tree in a folder named after version and content.
//
// Two `up` at the same time build once (flock), and a binary appears complete or not at all (rename).
package main

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	progressInterval = 10 * time.Second
	// The build's output is kept up to this many lines, for the report of a failure.
	failureLinesMax = 30
	// Two compilers: more would need more than 4 GB of memory.
	buildParallel = "2"
	// A compiler that collects its garbage less often takes a sixth less CPU time.
	compilerGarbage = "GOGC=400"
)

// Build is one module (or a package of it) and what it makes.
type Build struct {
	name     string // for people
	folder   string // of the module
	packages []string
	tags     string
	variable map[string]string // linker variables
	key      string            // folder in the cache
}

// sourceFolder is e2e/, given by the wrapper script.
func sourceFolder() (string, error) {
	folder := os.Getenv("BERTH_E2E_SOURCE")
	if folder == "" {
		return "", errors.New("BERTH_E2E_SOURCE is not set: call e2e/cluster, not the program behind it")
	}
	return folder, nil
}

func cacheFolder() (string, error) {
	if folder := os.Getenv("BERTH_CACHE_DIR"); folder != "" {
		return filepath.Abs(folder)
	}
	folder, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w: set BERTH_CACHE_DIR to a folder for built binaries", err)
	}
	return filepath.Join(folder, "berth"), nil
}

func kubernetesBuild(source string) (Build, error) {
	folder := filepath.Join(source, "kubernetes")
	version, err := moduleVersion(folder, "k8s.io/kubernetes")
	if err != nil {
		return Build{}, err
	}
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	const prefix = "k8s.io/component-base/version."
	return newBuild(Build{name: "Kubernetes " + version, folder: folder, packages: []string{"."},
		key: "kubernetes-" + version,
		variable: map[string]string{prefix + "gitVersion": version, prefix + "gitMajor": parts[0],
			prefix + "gitMinor": parts[1], prefix + "gitTreeState": "clean"}})
}

func runtimeBuild(source string) (Build, error) {
	folder := filepath.Join(source, "runtime")
	containerd, err := moduleVersion(folder, "github.com/containerd/containerd/v2")
	if err != nil {
		return Build{}, err
	}
	plugins, err := moduleVersion(folder, "github.com/containernetworking/plugins")
	if err != nil {
		return Build{}, err
	}
	return newBuild(Build{name: "containerd " + containerd + " and the CNI plugins " + plugins, folder: folder,
		packages: []string{"tool"}, tags: "no_btrfs,no_devmapper,no_zfs", key: "containerd-" + containerd,
		variable: map[string]string{"github.com/containerd/containerd/v2/version.Version": containerd,
			"github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion": plugins}})
}

func pauseBuild(source string) (Build, error) {
	return newBuild(Build{name: "the test image's program", folder: filepath.Join(source, "clusterctl"),
		packages: []string{"./pause"}, key: "pause"})
}

// newBuild completes the key with the content of the module's files.
func newBuild(b Build) (Build, error) {
	sum := sha256.New()
	for _, pattern := range []string{"go.mod", "go.sum", "main.go", "pause/*.go"} {
		files, _ := filepath.Glob(filepath.Join(b.folder, pattern))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return b, err
			}
			fmt.Fprintf(sum, "%s %d\n%s", filepath.Base(file), len(text), text)
		}
	}
	b.key = fmt.Sprintf("%s-%x", b.key, sum.Sum(nil)[:5])
	return b, nil
}

func moduleVersion(folder, module string) (string, error) {
	text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return "", err
	}
	pattern := regexp.MustCompile(`(?m)^(?:require)?\s*` + regexp.QuoteMeta(module) + ` (v\S+)`)
	match := pattern.FindSubmatch(text)
	if match == nil {
		return "", fmt.Errorf("%s/go.mod does not require %s", folder, module)
	}
	return string(match[1]), nil
}

// ensure returns the folder with the binaries, building them first if they are not there.
func (b Build) ensure() (string, error) {
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	final := filepath.Join(cache, b.key)
	if exists(final) {
		return final, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(final+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		fmt.Fprintf(os.Stderr, "waiting for another process that builds %s\n", b.name)
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
			return "", err
		}
	}
	if exists(final) {
		return final, nil
	}
	unfinished := final + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil { // of a build that was killed
		return "", err
	}
	if err := os.Mkdir(unfinished, 0o755); err != nil {
		return "", err
	}
	if err := b.build(unfinished); err != nil {
		return "", errors.Join(err, os.RemoveAll(unfinished))
	}
	return final, os.Rename(unfinished, final)
}

// goCommand ends with this process: SIGINT makes go stop its compilers.
func (b Build) goCommand(arguments ...string) *exec.Cmd {
	cmd := exec.Command("go", arguments...)
	cmd.Dir = b.folder
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", compilerGarbage)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGINT}
	return cmd
}

func (b Build) build(target string) error {
	began := time.Now()
	total := "?"
	var compiled atomic.Int64
	phase := atomic.Value{}
	phase.Store("fetching modules")
	done := make(chan struct{})
	defer close(done)
	fmt.Fprintf(os.Stderr, "building %s; only the first run does this\n", b.name)
	go func() {
		for ticker := time.NewTicker(progressInterval); ; {
			select {
			case <-done:
				ticker.Stop()
				return
			case <-ticker.C:
				fmt.Fprintf(os.Stderr, "%5.0fs  %s: %s\n", time.Since(began).Seconds(), b.name,
					strings.ReplaceAll(phase.Load().(string), "#", fmt.Sprint(compiled.Load())))
			}
		}
	}()
	arguments := append([]string{"list", "-deps"}, b.goArguments()...)
	if list, err := b.goCommand(arguments...).Output(); err == nil {
		total = fmt.Sprint(strings.Count(string(list), "\n"))
	}
	phase.Store("# of at most " + total + " packages compiled")
	if err := b.compile(target, &compiled); err != nil {
		return fmt.Errorf("build %s: %w", b.name, err)
	}
	fmt.Fprintf(os.Stderr, "built %s in %.0f s\n", b.name, time.Since(began).Seconds())
	return nil
}

func (b Build) goArguments() []string {
	var arguments []string
	if b.tags != "" {
		arguments = append(arguments, "-tags="+b.tags)
	}
	return append(arguments, b.packages...)
}

func (b Build) compile(target string, compiled *atomic.Int64) error {
	// Nobody debugs these: without what debuggers want, from the compiler as well.
	linker := "-s -w"
	for name, value := range b.variable {
		linker += " -X " + name + "=" + value
	}
	arguments := append([]string{"build", "-v", "-p=" + buildParallel, "-trimpath", "-buildvcs=false",
		"-gcflags=all=-dwarf=false", "-ldflags=" + linker, "-o", target + "/"}, b.goArguments()...)
	cmd := b.goCommand(arguments...)
	pipe, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := newSpawner().start(cmd); err != nil {
		return err
	}
	var failure []string
	for scanner := bufio.NewScanner(pipe); scanner.Scan(); {
		if line := scanner.Text(); strings.ContainsAny(line, " :") {
			failure = append(failure, line)
			failure = failure[max(0, len(failure)-failureLinesMax):]
		} else {
			compiled.Add(1)
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w\n%s", err, strings.Join(failure, "\n"))
	}
	return nil
}

// copyFile makes a copy of its own, so that whoever writes to it does not write to the cache.
func copyFile(source, target string) error {
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(target, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
