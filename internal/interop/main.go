package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	a, err := everything()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(http.ListenAndServe("127.0.0.1:3111", a.HTTP()))
}
