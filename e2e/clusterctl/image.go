// The test image: a tar that `ctr images import` reads, made from one static binary, as no registry can be reached.
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// testImage serves as sandbox image and for pods; its program is pause/main.go.
const testImage = "berth.test/pause:1"

type tarFile struct {
	name    string
	mode    int64
	content []byte
}

// writeImage makes an archive in the form of `docker save`: manifest.json, a configuration and one layer.
func writeImage(program, target string) error {
	binary, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	layer, err := archive([]tarFile{{"pause", 0o755, binary}})
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": []string{"/pause"}, "User": "65535:65535"},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{digest(layer)}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{
		{"Config": "config.json", "RepoTags": []string{testImage}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	image, err := archive([]tarFile{
		{"layer.tar", 0o644, layer}, {"config.json", 0o644, config}, {"manifest.json", 0o644, manifest}})
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
