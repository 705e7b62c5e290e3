"""What people say of images: files of theirs, and sessions in which they are asked."""
