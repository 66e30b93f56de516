	.data
	.incbin "arch/x86/realmode/blob"
