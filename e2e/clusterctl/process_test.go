// Processes: which are alive, which are ours; and how a node's network configuration is filled in.
package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAProcessIsAliveOnlyWithItsStartTime(t *testing.T) {
	ticks, err := startTicks(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name    string
		process Process
		want    bool
	}{
		{"Itself", Process{os.Getpid(), ticks}, true},
		{"ItsPidGivenToAnother", Process{os.Getpid(), ticks + 1}, false},
		{"NeverRecorded", Process{}, false},
	}
	for _, c := range cases {
		if got := c.process.alive(); got != c.want {
			t.Errorf("%s: alive is %v", c.name, got)
		}
	}
}

func TestAZombieIsNotAlive(t *testing.T) {
	cmd := exec.Command("true")
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	process := Process{Pid: cmd.Process.Pid}
	process.StartTicks, _ = startTicks(process.Pid)
	buffer := make([]byte, 1)
	_, _ = output.Read(buffer) // end of file: it is ending, but not yet waited for
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if !process.alive() {
			_ = cmd.Wait()
			return
		}
	}
	t.Error("a process that has ended counts as alive")
}

func TestLeftoversAreFoundByTheirMarkerAndNotByALongerOne(t *testing.T) {
	layout, err := newLayout(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	start := func(marker string) int {
		cmd := exec.Command("sleep", "60")
		cmd.Env = append(os.Environ(), markerVariable+"="+marker)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd.Process.Pid
	}
	mine, other := start(layout.Dir), start(layout.Dir+"2")
	found := leftovers(layout, map[string]bool{})
	if !slices.Contains(found, mine) || slices.Contains(found, other) {
		t.Errorf("found %v, want %d and not %d", found, mine, other)
	}
}

func writeMounts(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mountinfo")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAContainerIsToldByItsRoot(t *testing.T) {
	machine := writeMounts(t, "27 1 254:0 / / rw - ext4 /dev/vda rw\n30 27 8:1 /data /tmp rw - ext4 /dev/sda1 rw\n"+
		"31 27 8:2 / /tmp/c2 rw - ext4 /dev/sdb rw\n")
	folder := locate(machine, "/tmp/c")
	if want := (folderPlace{"/tmp/c", "8:1", "/data/c"}); folder != want {
		t.Fatalf("the folder is at %v, want %v", folder, want)
	}
	cases := []struct {
		name, mountinfo string
		want            bool
	}{
		{"Overlay", "226 125 0:81 / / ro - overlay overlay rw,lowerdir=/tmp/c/n1/root/s/1/fs,upperdir=/x\n", true},
		{"NativeSnapshotter", "226 125 8:1 /data/c/n2/root/s/7 / rw - ext4 /dev/sda1 rw\n", true},
		{"NativeOfAnotherDevice", "226 125 8:2 /data/c/n2/root/s/7 / rw - ext4 /dev/sdb rw\n", false},
		{"OverlayOfAnotherFolder", "226 125 0:81 / / ro - overlay overlay rw,lowerdir=/tmp/c2/n1/root/s/1/fs\n", false},
		{"OverlayFurtherDown", "226 125 0:81 / /x ro - overlay overlay rw,lowerdir=/tmp/c/n1/root/s/1/fs\n", false},
		{"TheMachine", "27 1 254:0 / / rw - ext4 /dev/vda rw\n", false},
		{"Ended", "", false},
	}
	for _, c := range cases {
		if got := rootLiesIn(writeMounts(t, c.mountinfo), folder); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

func TestNetworkConfigurationIsFilledIn(t *testing.T) {
	layout, _ := newLayout("/tmp/x")
	node := Node{NodeLayout: layout.node(2), cluster: ControlPlane{layout: layout, network: Network{Number: 7}}, nodes: 2}
	file := filepath.Join(t.TempDir(), "conf")
	template := "@NODE@ @BRIDGE@ @POD_CIDR@ @STATE_DIR@ @KUBECONFIG@ user@example.org"
	if err := os.WriteFile(file, []byte(template), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := node.networkConfiguration(file)
	want := strings.Join([]string{"n2", node.podBridge(), "10.242.7.0/24", "/tmp/x/n2/host-local",
		"/tmp/x/n2/kubelet.kubeconfig", "user@example.org"}, " ")
	if err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestProgramsEnterTheirNodesNamespaces(t *testing.T) {
	cases := []struct {
		name    string
		program Program
		want    string
	}{
		{"ControlPlane", Program{}, ""},
		{"Network", Program{Namespace: "/run/netns/x"}, "nsenter --net=/run/netns/x --"},
		{"Node", Program{Namespace: "/run/netns/x", Mounts: "/proc/7/ns/mnt"},
			"nsenter --net=/run/netns/x --mount=/proc/7/ns/mnt --"},
	}
	for _, c := range cases {
		if got := strings.Join(c.program.enter(), " "); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
