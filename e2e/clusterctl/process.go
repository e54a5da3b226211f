// Processes: start them so that they end with the supervisor, identify them for sure, end them.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// spawner starts commands on one thread that lives as long as the supervisor. The kernel sends the parent-death signal
// when the *thread* that forked ends, and Go ends threads as it likes.
type spawner struct{ requests chan spawnRequest }

type spawnRequest struct {
	cmd  *exec.Cmd
	done chan error
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan spawnRequest)}
	go func() {
		runtime.LockOSThread()
		for request := range s.requests {
			request.done <- request.cmd.Start()
		}
	}()
	return s
}

func (s *spawner) start(cmd *exec.Cmd) error {
	done := make(chan error)
	s.requests <- spawnRequest{cmd, done}
	return <-done
}

// Child is a process the supervisor started.
type Child struct {
	Process
	name   string
	log    string
	ended  chan struct{} // closed when the process has ended
	result error         // valid once ended is closed
}

// Program says how to start a child.
type Program struct {
	Name      string // also the name of its log file
	Arguments []string
	Namespace string // path of the network namespace to enter, "" for the host's
	Mounts    string // path of the mount namespace to enter, "" for the host's
	OwnMounts bool   // starts in a mount namespace of its own
	Env       []string
}

// startChild appends the output to the program's log. The child dies with the supervisor (SIGKILL), even with a killed
// one.
func (s *spawner) startChild(l Layout, p Program) (*Child, error) {
	arguments := append(p.enter(), p.Arguments...)
	log, err := os.OpenFile(l.log(p.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(arguments[0], arguments[1:]...)
	cmd.Dir = l.Dir
	cmd.Env = append(childEnvironment(l), p.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if p.OwnMounts {
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	if err := s.start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	child := &Child{name: p.Name, log: l.log(p.Name), ended: make(chan struct{})}
	child.Pid = cmd.Process.Pid
	child.StartTicks, _ = startTicks(child.Pid)
	go func() {
		child.result = cmd.Wait()
		close(child.ended)
	}()
	return child, nil
}

// enter is the command, if any, that enters the program's namespaces.
func (p Program) enter() []string {
	var options []string
	if p.Namespace != "" {
		options = append(options, "--net="+p.Namespace)
	}
	if p.Mounts != "" {
		options = append(options, "--mount="+p.Mounts)
	}
	if len(options) == 0 {
		return nil
	}
	return append(append([]string{"nsenter"}, options...), "--")
}

// childEnvironment is small and fixed: proxies, KUBECONFIG and the like of the caller must not reach the cluster.
func childEnvironment(l Layout) []string {
	return []string{
		"PATH=" + l.binDir() + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + l.Dir,
		"LANG=C.UTF-8",
		markerVariable + "=" + l.Dir,
		// Less of the processors that the tests share, for more memory, within bounds.
		"GOGC=400",
		"GOMEMLIMIT=600MiB",
	}
}

// stop sends the signal, then SIGKILL after patience. Returns when the process has ended.
func (c *Child) stop(signal syscall.Signal, patience time.Duration) {
	// Until Wait has returned, the pid cannot be given to anybody else.
	select {
	case <-c.ended:
		return
	default:
		_ = syscall.Kill(c.Pid, signal)
	}
	select {
	case <-c.ended:
	case <-time.After(patience):
		_ = syscall.Kill(c.Pid, syscall.SIGKILL)
		<-c.ended
	}
}

// lastLines of the log, for the person who must find out why the process ended.
func (c *Child) lastLines() string {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	if len(lines) > 8 {
		lines = lines[len(lines)-8:]
	}
	for i, line := range lines {
		if len(line) > 300 {
			lines[i] = append(line[:300:300], "..."...)
		}
	}
	return string(bytes.Join(lines, []byte("\n")))
}

// startTicks reads field 22 of /proc/PID/stat. The second field, the name, may contain blanks and parentheses.
func startTicks(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return 0, errors.New("unexpected form of /proc/PID/stat")
	}
	if fields[0] == "Z" {
		return 0, errors.New("process has ended")
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// alive reports whether exactly this process still runs.
func (p Process) alive() bool {
	if p.Pid <= 0 {
		return false
	}
	ticks, err := startTicks(p.Pid)
	return err == nil && ticks == p.StartTicks
}

// run executes a short command; its output is part of the error.
func run(name string, arguments ...string) error {
	_, err := output(name, arguments...)
	return err
}

func output(name string, arguments ...string) (string, error) {
	text, err := exec.Command(name, arguments...).CombinedOutput()
	if err != nil {
		return string(text), fmt.Errorf("%s %s: %w: %s", name, strings.Join(arguments, " "), err, bytes.TrimSpace(text))
	}
	return string(text), nil
}
