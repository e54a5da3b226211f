// Command clusterctl makes real Kubernetes clusters for tests and the demo; people call it as e2e/cluster.
//
// `up` checks and builds, then starts a supervisor (supervisor.go) and waits for it; `down` asks the supervisor to end
// and removes what is left (sweep.go). All paths and names come from layout.go.
package main

import (
	"errors"
	"fmt"
	"os"
)

const usage = `usage: e2e/cluster COMMAND --dir DIR [options]

A Kubernetes cluster from Go modules, for tests and the demo. Everything it writes is in DIR, but for the cache of
built binaries (${BERTH_CACHE_DIR:-~/.cache/berth}; only the first run builds, about 7 minutes on 2 cores).

  up       start a cluster and wait until it is ready
             --nodes N             0: control plane only (the default); 1 to 3: each node has a network and
                                   mounts of its own, which needs root
             --audit               write the API server's audit log to DIR/audit.log
             --cni-conf FILE       network configuration (conflist) of every node instead of bridge with host-local;
                                   @NODE@ @BRIDGE@ @POD_CIDR@ @STATE_DIR@ @KUBECONFIG@ in it are replaced;
                                   none: the nodes wait for one, NotReady, as those of a new cluster do
             --image FILE          load this archive of an image into every node; may be given several times
             --apiserver-arg ARG   a further flag of kube-apiserver; may be given several times
             --cni-plugins         CNI plugins in CNI_BIN_DIR without nodes, too: bridge, ptp, host-local, loopback
             --fsync               let etcd sync to disk as in production (the default skips that: data is for tests)
  env      print shell lines with KUBECONFIG, PATH, CNI_BIN_DIR and BERTH_*; use: eval "$(e2e/cluster env --dir DIR)"
  down     end the cluster and remove what it left; DIR/logs and DIR/audit.log stay. Works after a crash, too
  stop-apiserver [--kill], start-apiserver
           for tests of restarts: stop sends SIGTERM and after 5 s SIGKILL, with --kill SIGKILL at once; start waits
           until the API server is ready again
  stop NAME [--kill], start NAME
           the same for any process: etcd, kube-scheduler, kubelet-n1, containerd-n1, ...
  kubeconfig --user USER [--group GROUP]... [--expired] [--out FILE]
           print a kubeconfig with a client certificate for USER, e.g. --user system:node:n7 --group system:nodes
  build    only build the binaries, for all kinds of clusters

Environment:
  KUBEBUILDER_ASSETS            a folder with etcd, kube-apiserver and kubectl to use instead of building these
  BERTH_USE_EXISTING_CLUSTER=1  up starts nothing and uses the cluster of the current KUBECONFIG; down leaves it alone
  BERTH_CACHE_DIR               where built binaries are kept
`

func main() {
	err := dispatch(os.Args[1:])
	var code exitCode
	if errors.As(err, &code) {
		os.Exit(int(code))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e/cluster:", err)
		os.Exit(1)
	}
}

// exitCode ends the program without a further message.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

func dispatch(arguments []string) error {
	if len(arguments) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return exitCode(2)
	}
	options, err := parseOptions(arguments)
	if err != nil {
		return err
	}
	switch options.command {
	case "help":
		fmt.Print(usage)
		return nil
	case "build":
		_, err := ensureBinaries(options, true)
		return err
	case "up":
		return up(options)
	case "supervise":
		return exitCode(supervise(options))
	case "mounts":
		return holdMounts(options.layout.path(options.process))
	case "env":
		return printEnvironment(options.layout)
	case "down":
		return down(options.layout)
	case "stop", "start":
		return commandSupervisor(options)
	default:
		return writeKubeconfig(options)
	}
}
