"""What nobody needs any more, and what would grow without end: dead containers, unused images, logs."""
