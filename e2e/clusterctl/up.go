// up, and the commands that talk to a running supervisor.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// up returns when the cluster is ready, or when nothing of it is left.
func up(options Options) error {
	l := options.layout
	if os.Getenv("BERTH_USE_EXISTING_CLUSTER") == "1" {
		return useExisting(options)
	}
	if err := checkMachine(options); err != nil {
		return err
	}
	if err := checkFolder(l); err != nil {
		return err
	}
	if options.cniConf != "" && options.cniConf != noNetwork {
		var err error
		if options.cniConf, err = absoluteFile("--cni-conf", options.cniConf); err != nil {
			return err
		}
	}
	for index, image := range options.images {
		var err error
		if options.images[index], err = absoluteFile("--image", image); err != nil {
			return err
		}
	}
	binaries, err := ensureBinaries(options, false)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(l.path("logs"), 0o755); err != nil {
		return err
	}
	if err := binaries.install(l); err != nil {
		return err
	}
	return superviseFromUp(options)
}

// absoluteFile is for the supervisor, which works in another folder.
func absoluteFile(option, file string) (string, error) {
	absolute, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(absolute); err != nil {
		return "", fmt.Errorf("%s: %w", option, err)
	}
	return absolute, nil
}

// checkFolder refuses a folder in which a cluster lives or has left something.
func checkFolder(l Layout) error {
	record, err := readRecord(l)
	if errors.Is(err, errNoCluster) {
		return os.MkdirAll(l.Dir, 0o755)
	}
	if err != nil {
		return err
	}
	switch {
	case record.Existing:
		return fmt.Errorf("%s stands for an existing cluster: end that with e2e/cluster down --dir %s", l.Dir, l.Dir)
	case record.Supervisor.alive():
		return fmt.Errorf("a cluster with %d nodes runs in %s already (pid %d): use it, or end it with "+
			"e2e/cluster down --dir %s", record.Nodes, l.Dir, record.Supervisor.Pid, l.Dir)
	}
	return fmt.Errorf("%s holds the rest of a cluster that ended without down: run e2e/cluster down --dir %s first",
		l.Dir, l.Dir)
}

func superviseFromUp(options Options) error {
	l := options.layout
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(l.log("supervisor"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(self, options.supervisorArguments()...)
	cmd.Dir = l.Dir
	cmd.Env = childEnvironment(l)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	var failure error
	for {
		select {
		case received := <-interrupted:
			if failure == nil {
				fmt.Fprintln(os.Stderr, "e2e/cluster: interrupted, taking everything down")
				failure = exitCode(128 + int(received.(syscall.Signal)))
				stdin.Close()
			}
		case line, ok := <-lines:
			message, failed := strings.CutPrefix(line, wordFailed)
			switch {
			case !ok:
				_ = cmd.Wait()
				if failure == nil {
					failure = fmt.Errorf("the supervisor has ended, see %s", l.log("supervisor"))
				}
				return failure
			case failed && failure == nil:
				failure = errors.New(strings.ReplaceAll(message, "\x02", "\n"))
				stdin.Close()
			case line == wordReady && failure == nil:
				_, err := fmt.Fprintln(stdin, wordKeep)
				return err
			case line != wordReady && !failed:
				fmt.Fprintln(os.Stderr, line)
			}
		}
	}
}

// commandSupervisor sends stop or start and waits for the answer.
func commandSupervisor(options Options) error {
	l := options.layout
	record, err := readRecord(l)
	if err != nil {
		return explainMissing(l, err)
	}
	if record.Existing {
		return fmt.Errorf("%s uses an existing cluster, which is left alone", l.Dir)
	}
	if err := os.Chdir(l.Dir); err != nil {
		return err
	}
	connection, err := net.Dial("unix", controlSocket)
	if err != nil {
		return fmt.Errorf("the cluster in %s does not run: %w", l.Dir, err)
	}
	defer connection.Close()
	detail := "TERM"
	if options.kill {
		detail = "KILL"
	}
	fmt.Fprintln(connection, options.command, options.process, detail)
	_ = connection.SetReadDeadline(time.Now().Add(2 * startTimeout))
	answer, err := bufio.NewReader(connection).ReadString('\n')
	if err != nil {
		return fmt.Errorf("no answer from the supervisor: %w", err)
	}
	if answer = strings.TrimSpace(answer); answer != "ok" {
		return errors.New(strings.ReplaceAll(answer, "\x02", "\n"))
	}
	return nil
}
