// Images for pods: tars that `ctr images import` reads, each made from one static program, as no registry can be reached.
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// testImage serves as sandbox image and for pods; its program is pause/main.go.
const testImage = "berth.test/pause:1"

// userImage has a shell and ping, for pods of examples and documents. On a machine with a registry it is the image of the
// same name from Docker Hub; here it is made from Debian's package busybox-static, which has the same version.
const userImage = "docker.io/library/busybox:1.35"

// busyboxProgram is where the Debian package puts it.
const busyboxProgram = "/bin/busybox"

type tarFile struct {
	name    string
	mode    int64
	content []byte
	link    string // target of a symbolic link; "" for a file
}

// writePauseImage makes the archive of testImage.
func writePauseImage(program, target string) error {
	binary, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	config := map[string]any{"Entrypoint": []string{"/pause"}, "User": "65535:65535"}
	return writeImage(testImage, config, []tarFile{{name: "pause", mode: 0o755, content: binary}}, target)
}

// writeUserImage makes the archive of userImage. It makes none, and returns false, if the machine has no busybox that
// runs without shared libraries.
func writeUserImage(program, target string) (bool, error) {
	binary, err := os.ReadFile(program)
	if errors.Is(err, os.ErrNotExist) || err == nil && needsLoader(binary) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	applets, err := exec.Command(program, "--list").Output()
	if err != nil {
		return false, fmt.Errorf("%s --list: %w", program, err)
	}
	files := []tarFile{{name: "bin/busybox", mode: 0o755, content: binary}}
	for _, applet := range strings.Fields(string(applets)) {
		if applet != "busybox" {
			files = append(files, tarFile{name: "bin/" + applet, mode: 0o777, link: "busybox"})
		}
	}
	config := map[string]any{"Cmd": []string{"sh"}, "Env": []string{"PATH=/bin"}}
	return true, writeImage(userImage, config, files, target)
}

// needsLoader reports whether an ELF program asks for a dynamic loader, or is no ELF program at all.
func needsLoader(binary []byte) bool {
	program, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		return true
	}
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP {
			return true
		}
	}
	return false
}

// writeImage makes an archive in the form of `docker save`: manifest.json, a configuration and one layer.
func writeImage(name string, run map[string]any, files []tarFile, target string) error {
	layer, err := archive(files)
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       run,
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{digest(layer)}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{
		{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	image, err := archive([]tarFile{
		{name: "layer.tar", mode: 0o644, content: layer}, {name: "config.json", mode: 0o644, content: config},
		{name: "manifest.json", mode: 0o644, content: manifest}})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	return writeFileAtomically(target, image, 0o644)
}

// archive leaves times at zero, so that equal content makes an equal image.
func archive(files []tarFile) ([]byte, error) {
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for _, file := range files {
		header := &tar.Header{Name: file.name, Mode: file.mode, Size: int64(len(file.content)), Typeflag: tar.TypeReg}
		if file.link != "" {
			header.Typeflag, header.Linkname = tar.TypeSymlink, file.link
		}
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(file.content); err != nil {
			return nil, err
		}
	}
	err := errors.Join(writer.Close())
	return buffer.Bytes(), err
}

func digest(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }
