// Command kubernetes is one binary with the programs of a control plane, the kubelet, kubectl and etcdutl.
//
// One binary, because these programs share nearly all of their code: apart they take 600 MB and five times the link
// time. It acts as the program it is called by (a link named kube-apiserver) or as its first argument says.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/etcdutl/v3/etcdutl"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// The programs by name. Each makes its command only when it is asked for: making them all would register the same
// flags and metrics several times.
var programs = map[string]func() int{
	"etcd":                    runEtcd,
	"etcdutl":                 runEtcdutl,
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kubelet":                 func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
	"kubectl":                 runKubectl,
}

func main() {
	name := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	if _, found := programs[name]; !found && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	run, found := programs[name]
	if !found {
		names := make([]string, 0, len(programs))
		for program := range programs {
			names = append(names, program)
		}
		sort.Strings(names)
		fmt.Fprintf(os.Stderr, "usage: kubernetes PROGRAM [flags], where PROGRAM is one of: %s\n", strings.Join(names, " "))
		os.Exit(2)
	}
	os.Exit(run())
}

func runEtcd() int {
	etcdmain.Main(os.Args)
	return 0
}

// runEtcdutl knows what is done to snapshots.
func runEtcdutl() int {
	command := &cobra.Command{Use: "etcdutl"}
	command.AddCommand(etcdutl.NewSnapshotCommand())
	return cli.Run(command)
}

func runKubectl() int {
	command := kubectl.NewDefaultKubectlCommand()
	if err := cli.RunNoErrOutput(command); err != nil {
		kubectlutil.CheckErr(err)
	}
	return 0
}
