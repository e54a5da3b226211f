// Options: what the command line refuses, and that the supervisor gets what up was given.
package main

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseOptionsRefuses(t *testing.T) {
	cases := []struct{ name, line, want string }{
		{"UnknownCommand", "start-all --dir d", `unknown command "start-all"`},
		{"UnknownOption", "up --dir d --node 1", `unknown option "--node"`},
		{"OptionWithoutValue", "up --dir", "--dir needs a value"},
		{"NoFolder", "up", "needs --dir"},
		{"RootFolder", "up --dir /", "cannot be a cluster's folder"},
		{"TooManyNodes", "up --dir d --nodes 4", "must be 0 to 3"},
		{"NegativeNodes", "up --dir d --nodes=-1", "must be 0 to 3"},
		{"NodesNotANumber", "up --dir d --nodes one", "must be 0 to 3"},
		{"SwitchWithValue", "up --dir d --audit=no", `unknown option "--audit"`},
		{"StopWithoutProcess", "stop --dir d", "needs the name of a process"},
		{"StrayWord", "up --dir d one", `unknown option "one"`},
		{"KubeconfigWithoutUser", "kubeconfig --dir d --group g", "needs --user"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseOptions(strings.Fields(c.line))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q: want an error with %q, got %v", c.line, c.want, err)
			}
		})
	}
}

func TestSupervisorGetsTheOptionsOfUp(t *testing.T) {
	up, err := parseOptions([]string{"up", "--dir", "/tmp/x y", "--nodes=2", "--audit", "--fsync", "--cni-conf", "/f",
		"--image", "/i", "--image=/j", "--apiserver-arg", "--v=4", "--apiserver-arg=--feature-gates=A=true"})
	if err != nil {
		t.Fatal(err)
	}
	supervise, err := parseOptions(up.supervisorArguments())
	if err != nil {
		t.Fatal(err)
	}
	up.command = "supervise"
	if !reflect.DeepEqual(up, supervise) {
		t.Errorf("up has %+v, the supervisor %+v", up, supervise)
	}
}

func TestStopAndStartNameTheAPIServer(t *testing.T) {
	for _, line := range []string{"stop-apiserver --dir d --kill", "stop kube-apiserver --kill --dir d"} {
		options, err := parseOptions(strings.Fields(line))
		if err != nil {
			t.Fatal(err)
		}
		if options.command != "stop" || options.process != "kube-apiserver" || !options.kill {
			t.Errorf("%q: got %+v", line, options)
		}
	}
}

func TestQuoteShellKeepsOneWord(t *testing.T) {
	if got := quoteShell(`it's $HOME`); got != `'it'\''s $HOME'` {
		t.Errorf("got %s", got)
	}
}
