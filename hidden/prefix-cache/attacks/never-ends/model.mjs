// Never gives the processor back.
for (;;);
