// Supervisor: the daemon that owns a cluster. It starts everything, reports to `up`, and stays as the parent of all.
//
// `up` holds its stdin. End of file before the word "keep" means that `up` was interrupted, even by SIGKILL: everything
// is taken down again. If the supervisor itself is killed, the kernel ends its children, and `down` removes the rest.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	startTimeout = 120 * time.Second
	nodeTimeout  = 120 * time.Second
	stopPatience = 5 * time.Second
)

// The words by which supervisor and `up` understand each other; every other line is progress for the person.
const (
	wordReady  = "\x01ready"
	wordFailed = "\x01failed "
	wordKeep   = "keep"
)

// Supervisor is used by its own goroutines; mutex guards what follows it.
type Supervisor struct {
	options Options
	layout  Layout
	began   time.Time
	spawner *spawner
	client  *APIClient
	control ControlPlane

	mutex    sync.Mutex
	record   Record
	children []*Child // in the order of their start, ended ones included
	programs map[string]Program
}

// supervise runs in DIR. Its result is the exit code.
func supervise(options Options) int {
	l := options.layout
	lock, err := lockFolder(l)
	if err != nil {
		fmt.Println(wordFailed + err.Error())
		return 1
	}
	defer lock.Close()
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	signal.Ignore(syscall.SIGPIPE, syscall.SIGHUP) // a killed `up` must not kill the one that cleans up after it
	keep := make(chan struct{})
	go func() {
		if line, _ := bufio.NewReader(os.Stdin).ReadString('\n'); strings.TrimSpace(line) == wordKeep {
			close(keep)
			return
		}
		cancel()
	}()
	s := &Supervisor{options: options, layout: l, began: time.Now(), spawner: newSpawner(), programs: map[string]Program{}}
	code := 0
	if err := s.start(ctx); err != nil {
		fmt.Println(wordFailed + strings.ReplaceAll(err.Error(), "\n", "\x02"))
		code = 1
	} else {
		fmt.Println(wordReady)
		select {
		case <-keep:
			<-ctx.Done()
		case <-ctx.Done():
		}
	}
	s.stopAll()
	if err := sweep(l); err != nil {
		fmt.Fprintln(os.Stderr, "sweep:", err)
		code = 1
	}
	return code
}

// lockFolder is held while a supervisor or a `down` works in DIR.
func lockFolder(l Layout) (*os.File, error) {
	lock, err := os.OpenFile(l.lockFile(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("%s is in use by another command", l.Dir)
	}
	return lock, nil
}

func (s *Supervisor) step(format string, arguments ...any) {
	fmt.Printf("%5.1fs  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, arguments...))
}

// start returns when the cluster is ready for use.
func (s *Supervisor) start(ctx context.Context) error {
	self := Process{Pid: os.Getpid()}
	self.StartTicks, _ = startTicks(self.Pid)
	// Recorded before anything is made, so that `down` works from here on.
	s.record = Record{Kubeconfig: s.layout.adminKubeconfig(), KubectlDir: s.layout.binDir(), Nodes: s.options.nodes,
		Audit: s.options.audit, Supervisor: self, Processes: map[string]Process{}}
	if err := writeRecord(s.layout, s.record); err != nil {
		return err
	}
	network, err := newNetwork(s.layout, s.options.nodes)
	if err != nil {
		return err
	}
	s.control = ControlPlane{layout: s.layout, network: network, audit: s.options.audit, fsync: s.options.fsync,
		apiserverArgs: s.options.apiserverArgs}
	authority, err := s.control.writeFiles()
	if err != nil {
		return err
	}
	if s.client, err = newAPIClient(s.layout, s.control.server()); err != nil {
		return err
	}
	s.mutex.Lock()
	s.record.Network, s.record.Server = network, s.control.server()
	s.mutex.Unlock()
	if err := s.listen(); err != nil {
		return err
	}
	nodes := s.prepareNodes(ctx, authority)
	if err := s.startControlPlane(ctx); err != nil {
		return err
	}
	if err := s.startNodes(ctx, nodes); err != nil {
		return err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.record.Ready = true
	s.step("ready; for a shell: eval \"$(e2e/cluster env --dir %s)\"", quoteShell(s.layout.Dir))
	return writeRecord(s.layout, s.record)
}

func (s *Supervisor) startControlPlane(ctx context.Context) error {
	etcd, err := s.startProgram(s.control.etcd())
	if err != nil {
		return err
	}
	address := fmt.Sprintf("127.0.0.1:%d", s.control.network.Ports.Etcd)
	if err := await(ctx, "etcd", startTimeout, etcd, func(context.Context) error {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			connection.Close()
		}
		return err
	}); err != nil {
		return err
	}
	s.step("etcd answers on %s", address)
	if err := s.startAPIServer(ctx); err != nil {
		return err
	}
	s.step("API server ready on %s", s.control.server())
	manager, err := s.startProgram(s.control.controllerManager())
	if err != nil {
		return err
	}
	scheduler, err := s.startProgram(s.control.scheduler())
	if err != nil {
		return err
	}
	if err := await(ctx, "kube-scheduler", startTimeout, scheduler, func(ctx context.Context) error {
		return s.client.get(ctx, fmt.Sprintf("https://127.0.0.1:%d/readyz", s.control.network.Ports.Scheduler), nil)
	}); err != nil {
		return err
	}
	// Pods can be made once the controller manager has given the default namespace these two.
	for _, path := range []string{"serviceaccounts/default", "configmaps/kube-root-ca.crt"} {
		if err := await(ctx, "kube-controller-manager", startTimeout, manager, func(ctx context.Context) error {
			return s.client.get(ctx, "/api/v1/namespaces/default/"+path, nil)
		}); err != nil {
			return err
		}
	}
	s.step("controller manager and scheduler ready")
	return nil
}

func (s *Supervisor) startAPIServer(ctx context.Context) error {
	child, err := s.startProgram(s.control.apiserver())
	if err != nil {
		return err
	}
	return await(ctx, "kube-apiserver", startTimeout, child, func(ctx context.Context) error {
		return s.client.get(ctx, "/readyz", nil)
	})
}

// startProgram starts it and records it.
func (s *Supervisor) startProgram(program Program) (*Child, error) {
	child, err := s.spawner.startChild(s.layout, program)
	if err != nil {
		return nil, err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.children = append(s.children, child)
	s.programs[program.Name] = program
	s.record.Processes[program.Name] = child.Process
	go s.noteEnd(child)
	return child, writeRecord(s.layout, s.record)
}

// noteEnd keeps the record true. Nothing is started again by itself: a component that crashed is something to see.
func (s *Supervisor) noteEnd(child *Child) {
	<-child.ended
	s.mutex.Lock()
	defer s.mutex.Unlock()
	now := time.Now().Format(time.RFC3339)
	fmt.Fprintf(os.Stderr, "%s %s pid=%d ended: %v\n", now, child.name, child.Pid, child.result)
	if s.record.Processes[child.name] == child.Process {
		delete(s.record.Processes, child.name)
		if exists(s.layout.recordFile()) {
			_ = writeRecord(s.layout, s.record)
		}
	}
}

// running returns the child of this name that runs, or nil.
func (s *Supervisor) running(name string) *Child {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, child := range s.children {
		select {
		case <-child.ended:
		default:
			if child.name == name {
				return child
			}
		}
	}
	return nil
}

// stopAll ends the children, the last started first, so that clients go before their servers.
func (s *Supervisor) stopAll() {
	s.mutex.Lock()
	children := slices.Clone(s.children)
	s.mutex.Unlock()
	slices.Reverse(children)
	for _, child := range children {
		// The data is deleted at once, so nobody needs a graceful end.
		child.stop(syscall.SIGKILL, stopPatience)
	}
}

// listen serves `stop` and `start` on the control socket: one line each way.
func (s *Supervisor) listen() error {
	_ = os.Remove(controlSocket)
	listener, err := net.Listen("unix", controlSocket)
	if err != nil {
		return err
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(connection)
		}
	}()
	return nil
}

func (s *Supervisor) serve(connection net.Conn) {
	defer connection.Close()
	line, err := bufio.NewReader(connection).ReadString('\n')
	if err != nil {
		return
	}
	answer := "ok"
	if err := s.obey(strings.Fields(line)); err != nil {
		answer = strings.ReplaceAll(err.Error(), "\n", "\x02")
	}
	fmt.Fprintln(connection, answer)
}

func (s *Supervisor) obey(words []string) error {
	if len(words) != 3 {
		return errors.New("malformed command")
	}
	verb, name, detail := words[0], words[1], words[2]
	s.mutex.Lock()
	program, known := s.programs[name]
	names := make([]string, 0, len(s.programs))
	for name := range s.programs {
		names = append(names, name)
	}
	s.mutex.Unlock()
	if !known {
		slices.Sort(names)
		return fmt.Errorf("no process %q here; there are: %s", name, strings.Join(names, " "))
	}
	child := s.running(name)
	switch {
	case verb == "stop" && child == nil:
		return fmt.Errorf("%s does not run", name)
	case verb == "stop" && detail == "KILL":
		child.stop(syscall.SIGKILL, stopPatience)
	case verb == "stop":
		child.stop(syscall.SIGTERM, stopPatience)
	case child != nil:
		return fmt.Errorf("%s runs already, pid %d", name, child.Pid)
	case name == "kube-apiserver":
		return s.startAPIServer(context.Background())
	default:
		_, err := s.startProgram(program)
		return err
	}
	return nil
}
