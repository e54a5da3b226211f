module berth.example.org/e2e/clusterctl

go 1.24
